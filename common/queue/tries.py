"""The tries of a command that is run again after failures.

Each try that failed and is followed by another one leaves an entry in its opcode's trail, with the source `gantry:try`
and a JSON object as its text:

    {"n":1,"start":1790000000.1,"end":1790000004.2,"why":"ended with exit code 75","exit":75,"next":1790000034.2,
     "output":812,"errors":0}

So the tries are in the job's file, in one write with the opcode's return to the queue. The last try is the opcode
itself: its result, its times. A try that was lost, with its machine or the process of its job, has `"lost":true`, and
does not count among those that its submitter allows.

Source: DESIGN section 16; everyday.md sections b, j.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import orjson

from common.queue.jobs import FINAL, Job, JobOp, JobState, OpEvent, Timestamp, apply_event
from common.queue.reasons import ReasonEntry

SOURCE: Final = "gantry:try"
# beginning of the line in the job's log that tells of a failed try
_LINE: Final = re.compile(r"try \d+ of \d+ ", re.ASCII)


@attrs.frozen
class Try:
    """A try that failed; all instants are seconds since the epoch."""

    # from 1
    number: int
    start_at: float
    end_at: float
    # such as `ended with exit code 75`
    why: str
    # exit code of the command; None: it was ended by a signal, or has not begun
    exit_code: int | None
    # the next try does not begin before this instant
    next_at: float
    # bytes of the job's output, and of its standard error if that is kept apart: where the next try's output begins
    output_end: int
    error_end: int = 0
    # whether nobody knows how far it came; such tries are not counted
    is_lost: bool = False


@attrs.frozen
class OutputRange:
    """The output of one try, as part of the job's."""

    # first byte
    begin: int
    # byte after the last one; None: it is the last of the job, as far as is known
    end: int | None


def try_entry(each: Try) -> ReasonEntry:
    """The entry of a try, which the job's process writes."""
    text = {
        "n": each.number,
        "start": each.start_at,
        "end": each.end_at,
        "why": each.why,
        "exit": each.exit_code,
        "next": each.next_at,
        "output": each.output_end,
        "errors": each.error_end,
        **({"lost": True} if each.is_lost else {}),
    }
    return ReasonEntry(SOURCE, orjson.dumps(text).decode(), int(each.end_at * 1e9))


def tries_of(op: JobOp) -> tuple[Try, ...]:
    """The tries of an opcode but the last one, in order; an entry that cannot be read is left out."""
    return tuple(_tries(op.input.get("reason")))


def tries_of_trail(trail: object) -> tuple[Try, ...]:
    """As `tries_of`, of the trail alone."""
    return tuple(_tries(trail))


def next_try(job: Job) -> Try | None:
    """The try before the next one of the job's next opcode; None: that opcode has not failed yet."""
    index = job.next_index
    tries = () if index is None else tries_of(job.ops[index])
    return tries[-1] if tries else None


def tries_so_far(job: Job) -> int:
    """Number of failed tries of the job's next opcode."""
    index = job.next_index
    return 0 if index is None else len(tries_of(job.ops[index]))


def is_of_try(message: object) -> bool:
    """Whether a line of a job's log tells of a failed try."""
    return isinstance(message, str) and _LINE.match(message) is not None


def with_failed_try(op: JobOp, failed: Try, now: Timestamp) -> JobOp:
    """The opcode, which was under way, in the queue again. Raises: Conflict: it was not."""
    event = OpEvent.HELD_BACK if op.state is JobState.WAITING else OpEvent.RETRIED
    trail = op.input.get("reason")
    known: Sequence[object] = trail if isinstance(trail, list | tuple) else ()
    reason = [*known, try_entry(failed).to_wire()]
    return attrs.evolve(apply_event(op, event, now), input={**op.input, "reason": reason})


def counted(tries: Sequence[Try]) -> int:
    """Number of the tries that count."""
    return sum(not each.is_lost for each in tries)


def lost_in_a_row(tries: Sequence[Try]) -> int:
    """Number of the tries at the end that were lost."""
    return next((place for place, each in enumerate(reversed(tries)) if not each.is_lost), len(tries))


def tried_index(job: Job) -> int | None:
    """Index of the last begun opcode that has failed tries, whose tries are meant by their bare numbers; or None."""
    return next((index for index in reversed(range(len(job.ops))) if tries_of(job.ops[index])), None)


def output_of_try(job: Job, number: int, *, is_error: bool = False) -> OutputRange | None:
    """Where the output of a try of the job lies; None: the job has had no such try.

    Args:
        number: from 1; the tries are those of `tried_index`, or of a job without failed tries its opcodes together.
        is_error: whether standard error is asked for, which the command keeps apart.
    """
    index = tried_index(job)
    if index is None:
        return OutputRange(0, None) if number == 1 else None
    ends = [each.error_end if is_error else each.output_end for each in tries_of(job.ops[index])]
    if not 1 <= number <= len(ends) + 1:
        return None
    begin = ends[number - 2] if number > 1 else _begin(job, index, is_error=is_error)
    if number <= len(ends):
        return OutputRange(begin, max(ends[number - 1], begin))
    op = job.ops[index]
    is_last = index + 1 == len(job.ops) or op.state is not JobState.SUCCESS
    return OutputRange(begin, None if is_last else begin + _printed(op, is_error=is_error))


def _begin(job: Job, index: int, *, is_error: bool) -> int:
    """Bytes that the opcodes before have printed."""
    begin = 0
    for op in job.ops[:index]:
        if tries := tries_of(op):
            begin = tries[-1].error_end if is_error else tries[-1].output_end
        begin += _printed(op, is_error=is_error)
    return begin


def _printed(op: JobOp, *, is_error: bool) -> int:
    """Bytes that the last try of an ended opcode has printed, by its result."""
    count = op.result.get("error_bytes" if is_error else "output_bytes") if isinstance(op.result, Mapping) else 0
    return count if isinstance(count, int) and op.state in FINAL else 0


def _tries(trail: object) -> Iterator[Try]:
    for entry in trail if isinstance(trail, list | tuple) else ():
        # this runs for each job of a long queue
        if isinstance(entry, Sequence) and len(entry) > 1 and entry[0] == SOURCE:
            try:
                given = orjson.loads(entry[1])
                yield Try(
                    int(given["n"]),
                    float(given["start"]),
                    float(given["end"]),
                    str(given["why"]),
                    None if given["exit"] is None else int(given["exit"]),
                    float(given["next"]),
                    int(given["output"]),
                    int(given.get("errors", 0)),
                    bool(given.get("lost")),
                )
            except (ValueError, TypeError, KeyError):
                continue
