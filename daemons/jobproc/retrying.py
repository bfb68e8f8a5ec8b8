"""What follows a failed try of a command: another one, or the failure of its opcode.

Theory. A try is over when nothing of its command runs any more: no next one begins before. Its failure is told by the
end of the last process of its group; processes that it left under the job's locks are waited for here, as before the
next opcode; and a try that may yet run on a silent node is never followed by another. Then the try, and the return of
the opcode to the queue, are one write, the locks are freed, and the process ends: a pause costs neither process nor
slot nor lock.

A request to cancel ends the tries: the one under way is the last. A shutdown of the machine is no failure of a try: it
loses the one under way, as a loss of power does.

Source: DESIGN section 16; everyday.md b, j.
"""

import random
import time
from collections.abc import Callable

import attrs

from common.commands.output import OutputFile
from common.commands.retryrules import MOST_LOST, decide, lost_pause
from common.opcodes.command import OpRunCommand
from common.opcodes.notify import OpNotify
from common.opcodes.registry import parse_opcode
from common.queue.jobs import to_seconds
from common.queue.tries import Try, counted, lost_in_a_row, tries_of
from common.system.log import get_log
from common.system.signals import ProcessSignals
from common.words.times import duration
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.leftprocesses import LeftProcesses
from daemons.jobproc.units.commandresult import TryFailed, TryLost

_log = get_log(__name__)


@attrs.frozen
class Again:
    """The opcode is to be tried again."""

    failed: Try
    # line for the job's log
    text: str


def _chance() -> float:
    return random.uniform(-1.0, 1.0)


@attrs.frozen
class Retrying:
    """Judges the failures of one job's commands."""

    _record: JobRecord
    _signals: ProcessSignals
    _left: LeftProcesses
    _output: OutputFile
    _error_output: OutputFile
    # from -1 to 1, evenly spread
    _chance: Callable[[], float] = _chance

    def after(self, index: int, error: BaseException, *, is_shut_down: bool) -> Again | None:
        """Return what is to be recorded, when nothing of the try runs any more; None: it was the last one.

        Args: is_shut_down: whether it was a shutdown of the machine that asked this process to end, and nobody else.
        Raises: JobCanceled: the job is cancelled while it waits for what the try left. GantryError: as
            `LeftProcesses.wait`.
        """
        if not isinstance(error, TryFailed | TryLost):
            return None
        op = parse_opcode(self._record.job.ops[index].input)
        if not isinstance(op, OpRunCommand | OpNotify) or self._decide(op, index, error, is_shut_down) is None:
            return None
        self._left.wait(lambda: self._record.log(index, "waiting for processes that the failed try left running"))
        self._signals.look()
        # only now: the pause begins after the last process
        next_at = self._decide(op, index, error, is_shut_down)
        return None if next_at is None else self._again(op, index, error, next_at)

    def _decide(
        self, op: OpRunCommand | OpNotify, index: int, error: TryFailed | TryLost, is_shut_down: bool
    ) -> float | None:
        """The instant of the next try; None: there is none."""
        before = tries_of(self._record.job.ops[index])
        if self._signals.cancel_asked and not is_shut_down:
            return None
        now = time.time()
        if isinstance(error, TryLost):
            lost = lost_in_a_row(before)
            return now + lost_pause(lost) if op.rerunnable and lost < MOST_LOST else None
        if isinstance(op, OpNotify):
            return op.next_try_at(counted(before) + 1, before[0].start_at if before else now, now)
        return decide(op.retry_policy, error.failure, counted(before) + 1, now, self._chance())

    def _again(self, op: OpRunCommand | OpNotify, index: int, error: TryFailed | TryLost, next_at: float) -> Again:
        job_op = self._record.job.ops[index]
        before, now = tries_of(job_op), time.time()
        is_lost = isinstance(error, TryLost)
        failed = Try(
            number=len(before) + 1,
            start_at=to_seconds(job_op.exec_at) if job_op.exec_at is not None else now,
            end_at=now,
            why="was lost" if isinstance(error, TryLost) else error.why,
            exit_code=None if isinstance(error, TryLost) else error.failure.exit_code,
            next_at=next_at,
            output_end=_end(self._output),
            error_end=_end(self._error_output) if op.stderr_apart else 0,
            is_lost=is_lost,
        )
        # those that were lost come on top
        of = op.retry_policy.tries + len(before) - counted(before) + is_lost
        pause = f"in {duration(next_at - now)}" if next_at > now else "at once"
        return Again(failed, f"try {failed.number} of {of} {failed.why}; next {pause}")


def _end(output: OutputFile) -> int:
    try:
        return output.end
    except OSError as error:
        _log.warning("output.unmeasured", error=error, effect="the outputs of the tries are shown together")
        return 0
