"""What luxid needs to know of an opcode before it runs, found by reading it once.

Theory. To read an opcode is dear: each parameter is checked. Most jobs of a queue differ from recent ones in
nothing of weight, and are looked up. Of the others a queued job keeps what its opcode amounts to, so that neither a
choice nor a list of all jobs reads it again.

Source: DESIGN section 6; luxid.md 5.11, 7.3.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from common.errors import GantryError
from common.locks import LockLevel
from common.opcodes.base import OpCode, summary
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job
from daemons.luxid.core.choice.weights import NO_NEEDS, UNREADABLE, Needs, needs_of

# nothing of a reading depends on these, and they differ from job to job
_COMMON_KEYS: Final = frozenset({"reason", "depends", "priority", "debug_level", "dry_run"})
# that are remembered: only for jobs that are like each other
_REMEMBERED: Final = 4096


@attrs.frozen
class OpcodeReading:
    """What an opcode amounts to."""

    needs: Needs
    # `TEST_DELAY(1.0)`; of an opcode unknown to us only its name
    summary: str


# by their text; not an `lru_cache`, which would have to make an opcode of the text again
_recent: Final[dict[str, OpcodeReading]] = {}
_ENDED: Final = OpcodeReading(NO_NEEDS, "")


def reading_of(op_input: Mapping[str, object]) -> OpcodeReading:
    """Read an opcode as it stands in a job's file.

    Cost: that of reading an opcode; a look-up for one that differs from a recent one in nothing of weight.
    """
    own = {key: value for key, value in op_input.items() if key not in _COMMON_KEYS}
    # as text: orjson leaves four kilobytes behind its bytes, and these are kept
    text = str(orjson.dumps(own), "utf-8")
    found = _recent.get(text)
    if found is None:
        if len(_recent) >= _REMEMBERED:
            _recent.clear()
        found = _recent[text] = _read(own)
    return found


def next_reading(job: Job) -> OpcodeReading:
    """That of the job's next opcode, or of the one under way."""
    index = job.next_index
    return reading_of(job.ops[index].input) if index is not None else _ENDED


def next_needs(job: Job) -> Needs:
    """The needs of the job's next opcode, or of the one under way. Cost: as `reading_of`."""
    return next_reading(job).needs


def as_written(_: LockLevel, name: str) -> str:
    """The resolver of predictions: names stand for themselves, and `aliases` knows which are for the same lock."""
    return name


def _read(own: Mapping[str, object]) -> OpcodeReading:
    try:
        op = parse_opcode(own)
    except GantryError:
        op_id = own.get("OP_ID")
        return OpcodeReading(UNREADABLE, op_id[3:] if isinstance(op_id, str) else "INVALID_OP")
    return OpcodeReading(_interned(_needs_of(op)), summary(op))


def _needs_of(op: OpCode) -> Needs:
    try:
        return needs_of(op.lock_declaration(as_written))
    except GantryError:
        return UNREADABLE


# equal ones are one object; not an `lru_cache` either: that is dear where most are new, as in a long queue
_recent_needs: Final[dict[Needs, Needs]] = {}


def _interned(needs: Needs) -> Needs:
    if len(_recent_needs) >= _REMEMBERED:
        _recent_needs.clear()
    return _recent_needs.setdefault(needs, needs)
