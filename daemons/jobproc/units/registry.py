"""All logical units by the id of their opcode: our own, and those of plug-in packages.

A plug-in adds units by an entry point in the group `gantry.units` that names a module; every
subclass of `LogicalUnit` that the module defines and that names its opcode is taken.

Source: DESIGN section 7.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from common.errors import InvalidRequest, OpcodeUnknown
from common.opcodes.base import OpCode
from common.plugins import modules, subclasses_in
from daemons.jobproc.units.base import LogicalUnit

_OWN: Final = (
    "daemons.jobproc.units.test",
    "daemons.jobproc.units.command",
    "daemons.jobproc.units.notify",
    "daemons.jobproc.units.cluster.whole",
    "daemons.jobproc.units.cluster.params",
    "daemons.jobproc.units.cluster.verify",
    "daemons.jobproc.units.networks",
    "daemons.jobproc.units.nodes",
    "daemons.jobproc.units.groups",
    "daemons.jobproc.units.tags",
    "daemons.jobproc.units.cluster.renewcrypto",
)
GROUP: Final = "gantry.units"


@cache
def unit_classes() -> Mapping[str, type[LogicalUnit[OpCode]]]:
    """Return every known unit by the `OP_ID` of its opcode; imports all families once.

    Raises: InvalidRequest: two modules define a unit for the same opcode.
    """
    classes: dict[str, type[LogicalUnit[OpCode]]] = {}
    for module in modules(_OWN, GROUP):
        # a common base of several units names no opcode
        for kind in (each for each in subclasses_in(module, LogicalUnit) if hasattr(each, "OPCODE")):
            op_id = kind.OPCODE.OP_ID
            if op_id in classes:
                raise InvalidRequest(
                    f"{module.__name__} defines a unit for {op_id}, which {classes[op_id].__module__} has"
                )
            classes[op_id] = kind
    return classes


def make_unit(op: OpCode) -> LogicalUnit[OpCode]:
    """Return the unit that carries out this opcode.

    Raises: OpcodeUnknown: no unit does.
    """
    kind = unit_classes().get(op.OP_ID)
    if kind is None:
        raise OpcodeUnknown(f"no logical unit carries out {op.OP_ID}; is its plug-in installed?", op_id=op.OP_ID)
    return kind(op)
