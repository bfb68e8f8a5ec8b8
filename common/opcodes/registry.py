"""All opcodes by their id: our own, and those of plug-in packages.

A plug-in adds opcodes by an entry point in the group `gantry.opcodes` that names a module; every
subclass of `OpCode` in that module is taken. A plug-in that cannot be imported, or that uses an id
already in use, stops the program, and the message names it: a queue that silently lacks an
operation would fail jobs later.

Source: DESIGN section 7.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from common.errors import InvalidRequest, OpcodeUnknown
from common.opcodes.base import OpCode, read_opcode
from common.plugins import modules, subclasses_in

_OWN: Final = tuple(
    f"common.opcodes.{family}"
    for family in (
        "cluster",
        "command",
        "group",
        "instance",
        "network",
        "node",
        "tags",
        "test",
    )
)
GROUP: Final = "gantry.opcodes"


@cache
def opcode_classes() -> Mapping[str, type[OpCode]]:
    """Every known opcode by its `OP_ID`; imports all families once.

    Raises: InvalidRequest: two modules define the same id.
    """
    classes: dict[str, type[OpCode]] = {}
    for module in modules(_OWN, GROUP):
        # a common base of several opcodes has no id
        for kind in (each for each in subclasses_in(module, OpCode) if "OP_ID" in vars(each)):
            if kind.OP_ID in classes:
                raise InvalidRequest(
                    f"{module.__name__} defines {kind.OP_ID}, which {classes[kind.OP_ID].__module__} has"
                )
            classes[kind.OP_ID] = kind
    return classes


def parse_opcode(value: object) -> OpCode:
    """Read one opcode as submitted.

    Raises: InvalidRequest, OpcodeUnknown: the message names the id, and the wrong parameter.
    """
    if not isinstance(value, dict):
        raise InvalidRequest(f"an opcode is an object with an OP_ID, got {value!r:.60}")
    op_id = value.get("OP_ID")
    if not isinstance(op_id, str):
        raise InvalidRequest('an opcode needs a string OP_ID, e.g. "OP_RUN_COMMAND"')
    kind = opcode_classes().get(op_id)
    if kind is None:
        raise OpcodeUnknown(f"unknown opcode {op_id!r}{_similar(op_id)}", op_id=op_id)
    return read_opcode(kind, value)


def _similar(op_id: str) -> str:
    # imported late: only a wrong name needs it
    from difflib import get_close_matches

    found = get_close_matches(op_id, opcode_classes())
    return f"; did you mean {' or '.join(found)}?" if found else ""
