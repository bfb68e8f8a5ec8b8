"""A command whose try was lost with the process of its job: back to the queue, if its submitter allows that.

Theory. No opcode runs twice (DESIGN section 3, invariant 5), but for a command of which its submitter has said that it
may: `rerunnable`. Nobody knows how far the lost try came, so it is not counted among those that failed. It is over:
the livelock of the process is free, which the supervisor of its command holds as well until nothing of it lives; or an
earlier master's lease is over, and with it all that ran under it. A command on a node is taken up instead (`nodework`).

A try that is lost each time does not go on for ever: after `MOST_LOST` in a row the job fails as others do.

Source: DESIGN section 16; everyday.md b, j.
"""

from typing import Final

import attrs

from common.commands.retryrules import MOST_LOST, lost_pause
from common.errors import GantryError
from common.opcodes.command import OpRunCommand
from common.opcodes.notify import OpNotify
from common.opcodes.registry import parse_opcode
from common.queue.jobs import Job, JobOp, JobState, LogEntry, replace_op, to_seconds, to_timestamp
from common.queue.tries import Try, counted, lost_in_a_row, tries_of, with_failed_try
from daemons.luxid.core.queue.recovery import Fate, judge_fate

_UNDER_WAY: Final = (JobState.WAITING, JobState.RUNNING)


def is_rerunnable(job: Job, *, takes_up: bool = False) -> bool:
    """Whether the job, whose process is dead, may try its command again. Args: takes_up: as for `judge_fate`."""
    if judge_fate(job, is_alive=False, takes_up=takes_up) is not Fate.DEAD:
        return False
    op = _op_under_way(job)
    return op is not None and _command(op).rerunnable is True and lost_in_a_row(tries_of(op)) < MOST_LOST


def after_lost_try(job: Job, now_s: float, output_ends: tuple[int, int]) -> Job:
    """The job with its command in the queue again, as it is to be written; it `is_rerunnable`.

    Args:
        now_s: seconds since the epoch.
        output_ends: bytes of its output, and of its standard error, so far.
    """
    op, index = _op_under_way(job), job.next_index
    assert op is not None
    assert index is not None
    before, now = tries_of(op), to_timestamp(now_s)
    pause_s = lost_pause(lost_in_a_row(before))
    lost = Try(
        number=len(before) + 1,
        start_at=now_s if op.exec_at is None else to_seconds(op.exec_at),
        end_at=now_s,
        why="was lost with the process of its job",
        exit_code=None,
        next_at=now_s + pause_s,
        output_end=output_ends[0],
        error_end=output_ends[1],
        is_lost=True,
    )
    of = _command(op).retry_policy.tries + lost.number - counted(before)
    text = f"try {lost.number} of {of} {lost.why}, and is not counted; it is run again"
    told = attrs.evolve(op, log=(*op.log, LogEntry(job.next_log_serial, now, "message", text)))
    return replace_op(job, index, with_failed_try(told, lost, now))


def _op_under_way(job: Job) -> JobOp | None:
    index = job.next_index
    op = None if index is None else job.ops[index]
    return op if op is not None and op.state in _UNDER_WAY and op.input.get("rerunnable") else None


def _command(op: JobOp) -> OpRunCommand | OpNotify:
    """The opcode of a rerunnable command; of one that cannot be read an empty one, which is not."""
    try:
        found = parse_opcode(dict(op.input))
    except GantryError:
        return _UNREAD
    return found if isinstance(found, OpRunCommand | OpNotify) else _UNREAD


_UNREAD: Final = OpRunCommand(argv=("true",))
