"""The end of an opcode that was under way: which end it is, and its record in the job's file.

The end of an opcode is written while wconfd frees its locks: neither needs the other. The next owner of the locks
may find the old state in the file for a moment, but never the old work under way, and the end in the file is no later
than its begin.

Nothing is freed while a process that the job has started may live under the locks, whatever has ended the opcode.

A shutdown of the machine ends an opcode that runs, as a failure that says so. What has not begun is left queued, for
another process after the next start of the machine; unless luxid has noted that somebody wants the job's end.

Source: DESIGN sections 3, 5 and 14; luxid.md 9.
"""

from collections.abc import Callable
from typing import Final

import attrs

from common.errors import ExecutionError, GantryError, JobCanceled
from common.ids import JobId
from common.nodes.epochs import read_seen
from common.queue.askers import asked_by
from common.queue.endtexts import CANCELED_TEXT, KILLED_TEXT
from common.queue.jobs import JobState
from common.settings import Settings
from common.system.log import get_log
from common.system.shutdown import SHUT_DOWN_TEXT, is_shutting_down
from common.system.signals import ProcessSignals
from daemons.jobproc.context import Abandoned
from daemons.jobproc.jobrecord import JobRecord
from daemons.jobproc.leftprocesses import LeftProcesses
from daemons.jobproc.locking import JobLocks
from daemons.jobproc.retrying import Retrying

# reason of a pause
SHUTDOWN: Final = "shutdown of the machine"
_log = get_log(__name__)


@attrs.frozen
class OpcodeEnds:
    """Records how the opcodes of one job end.

    Each method that ends an opcode under way frees its locks meanwhile.
    """

    job_id: JobId
    record: JobRecord
    locks: JobLocks
    left: LeftProcesses
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
        if self.left.look() or self.locks.is_guarded:
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
