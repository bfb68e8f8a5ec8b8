"""Reason trails: who requested an opcode, by which program, and why.

A reason may also limit: of the jobs with `rate-limit:3:backup` in a trail at most three run at
once. The number and the label together, as written, name the bucket.

Source: luxid.md 2.1, 2.3, 5.5; opcodes.md 2; DESIGN section 11.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.shapes import OwnForm


@attrs.frozen
class ReasonEntry(OwnForm):
    """One step of a trail, oldest first."""

    # by convention gnt:user, gnt:client:<program>, gnt:opcode:<name>, gnt:daemon:luxid:<what>
    source: str
    reason: str
    # nanoseconds since the epoch
    at_ns: int

    def to_wire(self) -> list[str | int]:
        return [self.source, self.reason, self.at_ns]

    @classmethod
    def from_wire(cls, value: object) -> "ReasonEntry":
        """Raises: InvalidRequest: the value is not `[source, reason, nanoseconds]`."""
        match value:
            case [str() as source, str() as reason, int() as at_ns] if not isinstance(at_ns, bool):
                return cls(source, reason, at_ns)
            case _:
                raise InvalidRequest(f"a reason is [source, reason, time in ns]; got {value!r}")


ReasonTrail = tuple[ReasonEntry, ...]


def opcode_source(op_id: str) -> str:
    """The source of luxid's entry for an opcode: `gnt:opcode:test_delay`."""
    return f"gnt:opcode:{op_id.removeprefix('OP_').lower()}"


def user_trail(reason: str | None, program: str, command: str, at_ns: int) -> ReasonTrail:
    """The trail of a command line: the user's own words, if any, then the program."""
    own: Sequence[ReasonEntry] = [ReasonEntry("gnt:user", reason, at_ns)] if reason else []
    return (*own, ReasonEntry(f"gnt:client:{program}", command, at_ns))


@attrs.frozen
class RateBucket:
    """The jobs that share a reason `rate-limit:...`; at most `limit` of them run at once."""

    # text after `rate-limit:`, unchanged: `3:backup` and `03:backup` are two buckets
    text: str
    limit: int


# at most 18 digits: a larger number would limit nothing
_RATE_LIMIT: Final = re.compile(r"rate-limit:(([0-9]{1,18})(?::.*)?)", re.ASCII | re.DOTALL)


def rate_bucket(reason: str) -> RateBucket | None:
    """The bucket that a reason names: `rate-limit:`, a number greater than 0, then the end or `:label`."""
    match = _RATE_LIMIT.fullmatch(reason)
    return RateBucket(match[1], int(match[2])) if match and int(match[2]) > 0 else None


def rate_buckets(trails: Iterable[object]) -> tuple[RateBucket, ...]:
    """The buckets of a job, each once.

    Args:
        trails: trails from the job file, one for each opcode; a malformed one has no buckets.
    """
    found: dict[RateBucket, None] = {}
    for trail in trails:
        for entry in trail if isinstance(trail, list | tuple) else ():
            # tested by hand: a pattern takes three times as long, and this runs for each job of a long queue
            reason = entry[1] if isinstance(entry, list | tuple) and len(entry) > 1 else None
            if not isinstance(reason, str) or not reason.startswith("rate-limit:"):
                continue
            if (bucket := rate_bucket(reason)) is not None:
                found[bucket] = None
    return tuple(found)
