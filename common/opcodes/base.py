"""The class of all opcodes, and how one is read, checked and written back.

An opcode is data: a frozen class with typed parameters, a summary and a declaration of its
locks. What it does is a logical unit's business (`daemons.jobproc.units`), which only job
processes import. Luxid reads an opcode strictly when it is submitted; what it then keeps in
the job file is the normal form that `write_opcode` gives: defaults filled in, optional
parameters that are unset left out.

Source: opcodes.md 1 and 2; DESIGN section 7.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from common.dependencies import Dependency
from common.errors import InvalidRequest
from common.jobs import SUBMIT_PRIORITIES
from common.lockdecl import NO_LOCKS, LockDeclaration
from common.reasons import ReasonEntry
from common.wire import structure, unstructure


def _submit_priority(_: object, __: object, value: int) -> None:
    if value not in SUBMIT_PRIORITIES.values():
        raise InvalidRequest(f"priority must be -10 (high), 0 (normal) or 10 (low), got {value}", priority=value)


def at_least(limit: float) -> Any:
    """A validator: the parameter is a number >= `limit`, or unset."""

    def check(_: object, attribute: "attrs.Attribute[Any]", value: float | None) -> None:
        if value is not None and value < limit:
            raise InvalidRequest(f"{attribute.name} must be at least {limit:g}, got {value:g}")

    return check


@attrs.frozen(kw_only=True)
class OpCode:
    """One operation with its parameters. Subclasses are frozen, keyword-only attrs classes too."""

    OP_ID: ClassVar[str]

    dry_run: bool | None = None
    debug_level: int | None = attrs.field(default=None, validator=at_least(0))
    priority: int = attrs.field(default=0, validator=_submit_priority)
    depends: tuple[Dependency, ...] | None = None
    comment: str | None = None
    reason: tuple[ReasonEntry, ...] = ()

    def summary_value(self) -> str | None:
        """What stands in brackets behind the name in lists; None for nothing."""
        return None

    def lock_declaration(self) -> LockDeclaration:
        """The locks that the parameters tell of; pure, the same at any time."""
        return NO_LOCKS


# present in the normal form even when they are unset (opcodes.md 2)
_ALWAYS_WRITTEN = frozenset({"depends", "comment"})


def read_opcode(kind: type[OpCode], value: Mapping[str, Any]) -> OpCode:
    """Read an opcode's JSON object; null and missing are the same, `depend` means `depends`.

    Raises: InvalidRequest: an unknown key, a wrong type or a value out of range.
    """
    fields = {"depends" if key == "depend" else key: item for key, item in value.items() if item is not None}
    if "reason" in value and value["reason"] is None:
        raise InvalidRequest("reason must be a list of [source, reason, time in ns], not null; it may be empty")
    fields.pop("OP_ID", None)
    return structure(fields, kind, f"opcode {kind.OP_ID}")


def write_opcode(op: OpCode) -> dict[str, Any]:
    """The opcode's normal form, as job files hold it."""
    fields: dict[str, Any] = unstructure(op)
    kept = {key: item for key, item in fields.items() if item is not None or key in _ALWAYS_WRITTEN}
    return {"OP_ID": op.OP_ID, **kept}


def summary(op: OpCode) -> str:
    """`TEST_DELAY(1.0)`: the id without OP_, and the parameter that tells most."""
    name = op.OP_ID.removeprefix("OP_")
    value = op.summary_value()
    return name if value is None else f"{name}({value})"
