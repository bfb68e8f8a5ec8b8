"""What luxid knows of the process of each job, in one record a job.

Theory. A job may have several processes, one after the other. The request to cancel or kill it, its secrets and its
failed starts belong to the job and outlive a process; livelock, child, first opcode and the way it was made belong to
the present process and go with it. The record is made on first need and dropped by `ended`, so nothing is left of a job
that has ended. A job that waits without secrets has no record.

A suspicion that a process is dead is left here, and whoever settles deaths is woken by it.

Source: DESIGN sections 5 and 7.
"""

import os
from collections.abc import Iterable

import attrs
import trio

from common.ids import JobId
from daemons.luxid.bells import Bells
from daemons.luxid.core.queue.recovery import Ask
from daemons.luxid.processes.killmessages import KillMessages
from protocol.forkserver import Secrets


@attrs.define(eq=False)
class JobProcess:
    """The record of one job."""

    # what was asked for while it had a process
    ask: Ask | None = None
    # the secret parameters, an item an opcode; they are nowhere but here
    secrets: Secrets | None = None
    # the number of starts in a row that came to nothing
    failures: int = 0
    # the path of the present process's livelock; None: it has no process, or one that never told
    livelock: str | None = None
    # the child that was made for the present process; it may be a wrapper
    child_pid: int | None = None
    # the index of the opcode that the present process was to begin with
    begun_at: int | None = None
    # whether the present process has said that it heeds requests to pause
    heeds_pauses: bool = False
    # set when a process of the job is reaped; only while the job is being started
    reaped: trio.Event | None = None
    # whether somebody looks whether the process lives, and whether that was asked for again meanwhile
    is_probed: bool = False
    is_suspected_again: bool = False


class JobProcesses:
    """The records of all jobs that have one."""

    def __init__(self, kill_messages: KillMessages) -> None:
        self._kill_messages = kill_messages
        self._records: dict[JobId, JobProcess] = {}
        # file name of a livelock -> the job whose present process holds it
        self._by_livelock: dict[str, JobId] = {}
        # rung by the file name of a livelock that may have been let go, whether a job is known by it or not
        self.livelock_bells: Bells[str] = Bells()
        self._suspects: set[JobId] = set()
        self._has_suspects = trio.Event()

    def __len__(self) -> int:
        return len(self._records)

    def record(self, job_id: JobId) -> JobProcess:
        """The record of a job that has not ended; made now if there is none."""
        record = self._records.get(job_id)
        if record is None:
            record = self._records[job_id] = JobProcess()
        return record

    def find(self, job_id: JobId) -> JobProcess | None:
        return self._records.get(job_id)

    # its life

    def has(self, job_id: JobId, livelock: str | None) -> JobProcess:
        """The job has a process, known by this livelock from now on."""
        record = self.record(job_id)
        record.livelock = livelock
        if livelock is not None:
            self._by_livelock[os.path.basename(livelock)] = job_id
        return record

    def gone(self, job_id: JobId) -> None:
        """The process is gone; what belongs to the job stays."""
        if (record := self._records.get(job_id)) is not None:
            self._forget_livelock(record)
            record.child_pid, record.heeds_pauses = None, False

    def ended(self, job_id: JobId) -> None:
        """The job has ended: nothing is left of it here."""
        record = self._records.pop(job_id, None)
        if record is not None:
            self._forget_livelock(record)
        self._kill_messages.withdraw(job_id, was_kill=record is not None and record.ask is Ask.KILL)

    def _forget_livelock(self, record: JobProcess) -> None:
        if record.livelock is not None:
            self._by_livelock.pop(os.path.basename(record.livelock), None)
            record.livelock = None

    # what is asked for

    def ask(self, job_id: JobId) -> Ask | None:
        """What was asked for the job while it had a process."""
        record = self._records.get(job_id)
        return record.ask if record is not None else None

    def ask_kill(self, job_id: JobId) -> None:
        """The job is being killed, which its process and the next luxid are told."""
        self.record(job_id).ask = Ask.KILL
        self._kill_messages.ask(job_id)

    def note_asker(self, job_id: JobId, uid: int, *, kill: bool) -> None:
        """This user asks for the end of a job that has a process: those who ask why it ended are told so."""
        self._kill_messages.note(job_id, uid, kill=kill)

    def heeds_pauses(self, job_id: JobId) -> bool:
        """Whether the present process of the job has said that it heeds requests to pause."""
        record = self._records.get(job_id)
        return record is not None and record.heeds_pauses

    def found_kills(self) -> frozenset[JobId]:
        """The jobs that an earlier luxid was asked to kill, as its messages say."""
        return self._kill_messages.found()

    def found_notes(self) -> frozenset[JobId]:
        """The jobs of which an earlier luxid has noted who asked for their end."""
        return self._kill_messages.noted()

    def kill_is_over(self, job_id: JobId) -> None:
        """The job has ended before this luxid began; its message has no purpose any more."""
        self._kill_messages.withdraw(job_id)

    # what happens

    def reaped(self, job_id: JobId) -> None:
        """A process of the job was reaped; a command of it may still live, and then the job does."""
        record = self._records.get(job_id)
        if record is not None and record.reaped is not None:
            record.reaped.set()
        self.suspect(job_id)

    def livelocks_touched(self, names: Iterable[str]) -> None:
        """Something ended that had these livelocks open."""
        for name in names:
            if (job_id := self._by_livelock.get(name)) is not None:
                self.suspect(job_id)
            self.livelock_bells.ring(name)

    def suspect(self, job_id: JobId) -> None:
        """The process of the job may be dead, if it has one: let that be looked at."""
        if job_id in self._records:
            self._suspects.add(job_id)
            self._has_suspects.set()

    async def suspects(self) -> frozenset[JobId]:
        """Wait until there are suspicions, and take them over."""
        await self._has_suspects.wait()
        suspects, self._suspects = frozenset(self._suspects), set()
        self._has_suspects = trio.Event()
        return suspects
