"""luxid's knowledge of the process of each job, in one record per job.

Theory. A job may have several processes, one after the other. The request to cancel or kill it, its secrets and its
failed starts belong to the job and outlive a process; livelock, child, first opcode and the support of pauses belong to
the present process and go with it. The record is made on first need, and `ended` drops it, so an ended job leaves
nothing here. A waiting job without secrets has no record.
A suspicion that a process is dead is recorded here, and wakes the part that settles deaths.

Source: DESIGN sections 5 and 7.
"""

import os
import re
from collections.abc import Iterable
from typing import Final

import attrs
import trio

from common.access import Caller
from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.queue.sidefiles import left_priority, note_asker, remove_priority, write_priority
from common.system.log import get_log
from daemons.luxid.broadcasts import Broadcasts
from daemons.luxid.core.queue.recovery import RecoveryRequest
from protocol.forkserver import Secrets

# The jobs that are being killed: messages to their processes, and to the next luxid.
#
# The message is a file among the messages for job processes, written before the first signal. So a process knows what
# its SIGTERM means, and a luxid that starts in the middle of a kill continues it.
#
# Source: DESIGN section 16.


_SUFFIX: Final = ".kill"
_NOTE_SUFFIX: Final = ".asker"
_log: Final = get_log(__name__)


class KillMessages:
    """The requests to kill jobs that have a process."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # jobs with a note of who asked, notes of an earlier luxid included
        self._noted: set[JobId] = set()

    def found(self) -> frozenset[JobId]:
        """The jobs with a kill message, of this luxid or an earlier one."""
        return self._left(_SUFFIX)

    def noted(self) -> frozenset[JobId]:
        """The jobs with a note of who asked for their end."""
        self._noted.update(self._left(_NOTE_SUFFIX))
        return frozenset(self._noted)

    def _left(self, suffix: str) -> frozenset[JobId]:
        names = [path.name.removesuffix(suffix) for path in self._paths.messages.glob(f"*{suffix}")]
        return frozenset(JobId(int(name)) for name in names if name.isascii() and name.isdigit())

    def ask(self, job_id: JobId) -> None:
        """Record that the job is being killed."""
        try:
            self._paths.kill_message(job_id).touch()
        except OSError as error:
            _log.error(
                "job.kill_not_told", job=job_id, reason=error, effect="it is killed by luxid after the grace time"
            )

    def note(self, job_id: JobId, caller: Caller, *, kill: bool) -> None:
        """Record the user who asks for the end of a job that has a process, for the text of the job's end."""
        by = {"uid": caller} if isinstance(caller, int) else {"speaker": caller}
        _log.info("job.end_asked", job=job_id, **by, kill=kill)
        self._noted.add(job_id)
        try:
            note_asker(self._paths.asker_note(job_id), caller)
        except OSError as error:
            _log.warning("job.asker_not_noted", job=job_id, reason=error, effect="only this log says who asked")

    def withdraw(self, job_id: JobId, *, was_kill: bool = True) -> None:
        """Remove the messages of an ended job. Costs nothing if there are none."""
        try:
            if job_id in self._noted:
                self._paths.asker_note(job_id).unlink(missing_ok=True)
                self._noted.discard(job_id)
            if was_kill:
                self._paths.kill_message(job_id).unlink(missing_ok=True)
        except OSError as error:
            _log.error("job.kill_message_left", job=job_id, reason=error, effect="the next luxid removes it")


# New priorities that were told to the processes of jobs.
#
# A process may end before it has heard of it, while its job goes on with the next one. Then luxid gives the job the
# priority itself, before anything else is decided about it.
#
# Source: luxid.md 2.5.


_MESSAGE: Final = re.compile(r"(\d+)\.prio(\.taken)?", re.ASCII)


class PriorityMessages:
    """The messages with new priorities, those of an earlier luxid included."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        # jobs that may have a message; so the others cost nothing
        self._told = {JobId(int(match[1])) for match in map(_match, _names(paths)) if match}

    @property
    def jobs(self) -> frozenset[JobId]:
        """The jobs that may have a message."""
        return frozenset(self._told)

    def tell(self, job_id: JobId, priority: int) -> None:
        """Leave the number where the job's process looks for it, which the caller wakes. Raises: OSError."""
        write_priority(self._paths.priority_message(job_id), priority)
        self._told.add(job_id)

    def left(self, job_id: JobId) -> int | None:
        """Return the priority that the job's process, which is dead, had not taken; None: there is none.

        Raises: Unavailable: it cannot be read at the moment.
        """
        if job_id not in self._told:
            return None
        message = self._paths.priority_message(job_id)
        try:
            return left_priority(message)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the new priority in '{message}' cannot be read: {reason}") from error
        except ValueError as error:
            _log.warning("priority.unreadable", job=job_id, error=error, effect="the job keeps its priority")
            return None

    def withdraw(self, job_id: JobId) -> None:
        """Remove the message, if there is one."""
        if job_id not in self._told:
            return
        self._told.discard(job_id)
        try:
            remove_priority(self._paths.priority_message(job_id))
        except OSError as error:
            _log.error("priority.message_left", job=job_id, reason=error, effect="the next luxid removes it")


def _names(paths: Paths) -> list[str]:
    return [path.name for path in paths.messages.glob("*.prio*")]


def _match(name: str) -> re.Match[str] | None:
    return _MESSAGE.fullmatch(name)


@attrs.define(eq=False)
class JobProcess:
    """The record of one job."""

    # request made while the job had a process
    ask: RecoveryRequest | None = None
    # secret parameters, one item for each opcode; they exist only here
    secrets: Secrets | None = None
    # number of consecutive failed starts
    failures: int = 0
    # processes in a row that died soon, and left a command on a node
    short_lives: int = 0
    # by trio's clock; 0: no process of the job was started by this luxid
    started_s: float = 0.0
    # whether the job's process died under an earlier master
    has_moved: bool = False
    # path of the present process's livelock; None: there is no process, or it has not reported one
    livelock: str | None = None
    # pid of the child made for the present process; it may be a wrapper
    child_pid: int | None = None
    # index of the opcode with which the present process was to begin
    begun_at: int | None = None
    # number of that opcode's failed tries then
    begun_tries: int = 0
    # whether the present process has reported that it supports requests to pause
    heeds_pauses: bool = False
    # whether the present process has written the job's end, which is being made durable
    has_written_end: bool = False
    # whether a probe is under way, and whether another was requested meanwhile
    is_probed: bool = False
    is_suspected_again: bool = False


class JobProcesses:
    """The records of all jobs that have one."""

    def __init__(self, kill_messages: KillMessages, told_priorities: PriorityMessages) -> None:
        self._kill_messages = kill_messages
        self.told_priorities = told_priorities
        self._records: dict[JobId, JobProcess] = {}
        # file name of a livelock -> the job whose present process holds it
        self._by_livelock: dict[str, JobId] = {}
        # broadcasts by the file name of a livelock that may have been released, for any livelock
        self.livelock_releases: Broadcasts[str] = Broadcasts()
        self._suspects: set[JobId] = set()
        self._has_suspects = trio.Event()

    def __len__(self) -> int:
        return len(self._records)

    def record(self, job_id: JobId) -> JobProcess:
        """Return the record of an unfinished job; make it if there is none."""
        record = self._records.get(job_id)
        if record is None:
            record = self._records[job_id] = JobProcess()
        return record

    def find(self, job_id: JobId) -> JobProcess | None:
        return self._records.get(job_id)

    # its life

    def has(self, job_id: JobId, livelock: str | None) -> JobProcess:
        """Record that the job has a process with this livelock."""
        record = self.record(job_id)
        record.livelock = livelock
        if livelock is not None:
            self._by_livelock[os.path.basename(livelock)] = job_id
        return record

    def gone(self, job_id: JobId) -> None:
        """Record that the process is gone; what belongs to the job stays."""
        if (record := self._records.get(job_id)) is not None:
            self._forget_livelock(record)
            record.child_pid, record.heeds_pauses, record.has_written_end = None, False, False

    def ended(self, job_id: JobId) -> None:
        """Forget a job that has ended."""
        record = self._records.pop(job_id, None)
        if record is not None:
            self._forget_livelock(record)
        self._kill_messages.withdraw(job_id, was_kill=record is not None and record.ask is RecoveryRequest.KILL)
        self.told_priorities.withdraw(job_id)

    def _forget_livelock(self, record: JobProcess) -> None:
        if record.livelock is not None:
            self._by_livelock.pop(os.path.basename(record.livelock), None)
            record.livelock = None

    # what is asked for

    def ask(self, job_id: JobId) -> RecoveryRequest | None:
        """The request made while the job had a process."""
        record = self._records.get(job_id)
        return record.ask if record is not None else None

    def ask_kill(self, job_id: JobId) -> None:
        """Record that the job is being killed, and tell its process and the next luxid."""
        self.record(job_id).ask = RecoveryRequest.KILL
        self._kill_messages.ask(job_id)

    def note_asker(self, job_id: JobId, caller: Caller, *, kill: bool) -> None:
        """Record the user who asks for the end of a job that has a process, for the text of the job's end."""
        self._kill_messages.note(job_id, caller, kill=kill)

    def heeds_pauses(self, job_id: JobId) -> bool:
        """Whether the present process of the job has reported that it supports requests to pause."""
        record = self._records.get(job_id)
        return record is not None and record.heeds_pauses

    def found_kills(self) -> frozenset[JobId]:
        """The jobs that an earlier luxid was asked to kill, by its messages."""
        return self._kill_messages.found()

    def found_notes(self) -> frozenset[JobId]:
        """The jobs for which an earlier luxid has recorded who asked for their end."""
        return self._kill_messages.noted()

    def kill_is_over(self, job_id: JobId) -> None:
        """Remove the messages of a job that ended before this luxid began."""
        self._kill_messages.withdraw(job_id)

    # what happens

    def livelocks_touched(self, names: Iterable[str]) -> None:
        """Report that a process has ended that had these livelocks open."""
        for name in names:
            if (job_id := self._by_livelock.get(name)) is not None:
                self.suspect(job_id)
            self.livelock_releases.notify(name)

    def suspect(self, job_id: JobId) -> None:
        """Report that the process of the job, if it has one, may be dead."""
        if job_id in self._records:
            self._suspects.add(job_id)
            self._has_suspects.set()

    async def suspects(self) -> frozenset[JobId]:
        """Wait for suspicions, and return them."""
        await self._has_suspects.wait()
        suspects, self._suspects = frozenset(self._suspects), set()
        self._has_suspects = trio.Event()
        return suspects
