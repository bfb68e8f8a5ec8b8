"""The end of an opcode that was under way: which end it is, and its record in the job's file.

The end of an opcode is written while wconfd frees its locks: neither needs the other. The next owner of the locks
may find the old state in the file for a moment, but never the old work under way, and the end in the file is no later
than its begin.

Nothing is freed while a process that the job has started may live under the locks, whatever has ended the opcode.

A shutdown of the machine ends an opcode that runs, as a failure that says so. What has not begun is left queued, for
another process after the next start of the machine; unless luxid has noted that somebody wants the job's end.

Source: DESIGN sections 3, 5 and 14; luxid.md 9.
"""

import random
import time
from collections.abc import Callable
from typing import Final

import attrs

from common.commands.output import OutputFile
from common.commands.retryrules import MOST_LOST, decide, lost_pause
from common.errors import ExecutionError, GantryError, JobCanceled
from common.ids import JobId
from common.nodes.mastership import read_seen
from common.opcodes.command import OpNotify, OpRunCommand
from common.opcodes.registry import parse_opcode
from common.queue.jobs import CANCELED_TEXT, KILLED_TEXT, JobState, to_seconds
from common.queue.reasons import Try, counted, lost_in_a_row, tries_of
from common.queue.sidefiles import asked_by
from common.settings import Settings
from common.system.log import get_log
from common.system.signals import SHUT_DOWN_TEXT, ProcessSignals, is_shutting_down
from common.words.times import duration
from daemons.jobproc.commandends import TryFailed, TryLost
from daemons.jobproc.context import Abandoned
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.leftprocesses import LeftoverWait
from daemons.jobproc.locking import JobLocks

# What follows a failed try of a command: another one, or the failure of its opcode.
#
# Theory. A try is over when nothing of its command runs any more: no next one begins before. Its failure is told by the
# end of the last process of its group; processes that it left under the job's locks are waited for here, as before the
# next opcode; and a try that may yet run on a silent node is never followed by another. Then the try, and the return of
# the opcode to the queue, are one write, the locks are freed, and the process ends: a pause costs neither process nor
# slot nor lock.
#
# A request to cancel ends the tries: the one under way is the last. A shutdown of the machine is no failure of a try:
# it loses the one under way, as a loss of power does.
#
# Source: DESIGN section 16; everyday.md b, j.


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
    _left: LeftoverWait
    _output: OutputFile
    _error_output: OutputFile
    # from -1 to 1, evenly spread
    _chance: Callable[[], float] = _chance

    def after(self, index: int, error: BaseException, *, is_shut_down: bool) -> Again | None:
        """Return what is to be recorded, when nothing of the try runs any more; None: it was the last one.

        Args: is_shut_down: whether it was a shutdown of the machine that asked this process to end, and nobody else.
        Raises: JobCanceled: the job is cancelled while it waits for what the try left. GantryError: as
            `LeftoverWait.wait`.
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


# reason of a pause
SHUTDOWN: Final = "shutdown of the machine"


@attrs.frozen
class OpcodeEnds:
    """Records how the opcodes of one job end.

    Each method that ends an opcode under way frees its locks meanwhile.
    """

    job_id: JobId
    record: JobRecord
    locks: JobLocks
    left: LeftoverWait
    retrying: Retrying
    signals: ProcessSignals
    settings: Settings

    def cancel_queued(self) -> None:
        """Cancel the job before an opcode that has not begun, and holds no locks."""
        text = KILLED_TEXT if self.signals.kill_asked else CANCELED_TEXT
        self.record.cancel(text + asked_by(self.settings.paths.asker_note(self.job_id)))

    def hold_back(self, index: int) -> None:
        """Queue the opcode again, which a filter rule has paused before it ran."""
        self._free_while(lambda: self.record.hold_back(index))

    def cancel(self, index: int) -> str:
        """Record that the opcode was canceled, or what a shutdown makes of it; return why it is queued, "": it is not.

        Raises: Abandoned: the job's file is another master's.
        """
        self._abandon_if_deposed()
        if not is_shutting_down():
            self._free_while(self.cancel_queued)
            return ""
        if self.record.job.ops[index].state is JobState.RUNNING:
            return self.fail(index, ExecutionError(SHUT_DOWN_TEXT))
        if not self.is_left_queued:
            self._free_while(self.cancel_queued)
            return ""
        if self.record.job.ops[index].state is JobState.WAITING:
            self.hold_back(index)
        return SHUTDOWN

    @property
    def is_left_queued(self) -> bool:
        """Whether what has not begun stays queued: the machine is being shut down, and nobody has asked for the end."""
        return is_shutting_down() and not self.settings.paths.asker_note(self.job_id).exists()

    def succeed(self, index: int, result: object) -> None:
        self._free_while(lambda: self._record_success(index, result))

    def fail(self, index: int, error: BaseException) -> str:
        """Record the failure of the job, or of a try of its command; return why it is queued again, "": it is not.

        Raises: Abandoned: the job's file is another master's.
        """
        self._abandon_if_deposed()
        # a unit that calls sys.exit() fails like any other
        self._log_failure(index, error)
        try:
            again = self.retrying.after(index, error, is_shut_down=self.is_left_queued)
        except JobCanceled:
            if not is_shutting_down():
                self._free_while(self.cancel_queued)
                return ""
            again = None
        except GantryError as silence:
            error, again = silence, None
        if again is None:
            self._free_while(lambda: self.record.fail(error))
            return ""
        self._free_while(lambda: self.record.try_again(index, again.failed, again.text))
        return again.text

    def _record_success(self, index: int, result: object) -> None:
        try:
            self.record.succeed(index, result)
        except GantryError as error:
            self._log_failure(index, error)
            self.record.fail(error)

    def _free_while(self, write: Callable[[], None]) -> None:
        """Write the opcode's end while its locks are freed."""
        if self.left.look() or self.locks.may_run:
            write()
            return
        self.record.note_over()
        self.locks.start_free()
        try:
            write()
        finally:
            self.locks.finish_free()

    def _abandon_if_deposed(self) -> None:
        """A node that has heard of another master ends what its jobs have started; how they end is not theirs to say.

        Raises: Abandoned: the job's file is another master's.
        """
        cluster, path = self.settings.cluster, self.settings.paths.epoch_file
        if not cluster.has_nodes:
            return
        try:
            is_ours = read_seen(path).is_of(cluster.own_name)
        except (GantryError, OSError) as error:
            _log.warning("epoch.unread", job=self.job_id, reason=error, going_on="as the master's")
            return
        if not is_ours:
            raise Abandoned("another node is the master now")

    def _log_failure(self, index: int, error: BaseException) -> None:
        if isinstance(error, GantryError):
            _log.info("opcode.failed", job=self.job_id, opcode=index, error=error)
        else:
            _log.exception("opcode.crashed", job=self.job_id, opcode=index)
