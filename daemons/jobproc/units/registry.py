"""All logical units by the id of their opcode: our own, and those of plug-in packages.

A plug-in adds units by an entry point in the group `gantry.units` that names a module; every
subclass of `LogicalUnit` that the module defines and that names its opcode is taken.

Source: DESIGN section 7.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import Final

from common.errors import InvalidRequest, OpcodeUnknown
from common.opcodes.base import OpCode
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
    for module in _modules():
        for kind in _defined_in(module):
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


def _modules() -> Iterator[ModuleType]:
    for name in _OWN:
        yield import_module(name)
    for point in entry_points(group=GROUP):
        yield point.load()


def _defined_in(module: ModuleType) -> Iterator[type[LogicalUnit[OpCode]]]:
    for value in vars(module).values():
        is_unit = isinstance(value, type) and issubclass(value, LogicalUnit) and value.__module__ == module.__name__
        # a common base of several units names no opcode
        if is_unit and hasattr(value, "OPCODE"):
            yield value
