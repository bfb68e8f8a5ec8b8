"""Reason trails: who asked for an opcode, through what, and why.

Source: luxid.md 2.1, 2.3; opcodes.md 2.
"""

from collections.abc import Sequence
from typing import Any

import attrs

from common.errors import InvalidRequest


@attrs.frozen
class ReasonEntry:
    """One step of a trail, oldest first."""

    # conventional: gnt:user, gnt:client:<program>, gnt:opcode:<name>, gnt:daemon:luxid:<what>
    source: str
    reason: str
    # nanoseconds since the epoch
    at_ns: int

    def to_wire(self) -> list[Any]:
        return [self.source, self.reason, self.at_ns]

    @classmethod
    def from_wire(cls, value: Any) -> "ReasonEntry":
        """Raises: InvalidRequest: not `[source, reason, nanoseconds]`."""
        match value:
            case [str() as source, str() as reason, int() as at_ns] if not isinstance(at_ns, bool):
                return cls(source, reason, at_ns)
        raise InvalidRequest(f"a reason is [source, reason, time in ns]; got {value!r}")


ReasonTrail = tuple[ReasonEntry, ...]


def opcode_source(op_id: str) -> str:
    """The source that luxid writes for an opcode: `gnt:opcode:test_delay`."""
    return f"gnt:opcode:{op_id.removeprefix('OP_').lower()}"


def user_trail(reason: str | None, program: str, command: str, at_ns: int) -> ReasonTrail:
    """The trail of a command line: the user's own words, if any, then the program."""
    own: Sequence[ReasonEntry] = [ReasonEntry("gnt:user", reason, at_ns)] if reason else []
    return (*own, ReasonEntry(f"gnt:client:{program}", command, at_ns))
