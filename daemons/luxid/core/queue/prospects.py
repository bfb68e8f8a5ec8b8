"""The prospects of jobs without a process: ready, to wait for others or for an instant, or never to start.

A job that can never start is held and handed out as doomed, once: a dependency of it can no longer be met, or its batch
has stopped after failures. Its end comes only when the shell has made it durable, and may doom others then.

Source: DESIGN sections 6, 13 and 16; luxid.md 5.4.
"""

from collections.abc import Iterable

from common.ids import JobId
from common.queue.dependencies import Dependency
from common.queue.jobs import Job, JobState
from common.queue.tries import next_try
from daemons.luxid.core.queue.batchstops import BatchStops
from daemons.luxid.core.queue.decisions import AT_REST, Doomed, Phase
from daemons.luxid.core.queue.dependents import Waits
from daemons.luxid.core.queue.entries import Entries
from daemons.luxid.core.queue.entry import Entry
from daemons.luxid.core.why.history import History


class Prospects:
    """Moves jobs between held, blocked, deferred and ready, as what they wait for comes and ends."""

    def __init__(self, entries: Entries, waits: Waits, history: History) -> None:
        self._entries = entries
        self._waits = waits
        self._history = history
        self._stops = BatchStops()
        self._doomed: list[Doomed] = []
        self._unblocked: list[JobId] = []
        # number of jobs looked at so far
        self.touched = 0

    def enter(self, job: Job) -> None:
        """Note a job that has not ended; a second time nothing changes."""
        self._stops.enter(job)

    def hold(self, job_id: JobId) -> None:
        """Keep the job from starting, whatever its phase; it waits for no job any more."""
        entry = self._entries[job_id]
        if entry.phase is not Phase.HELD:
            self._entries.move(entry, Phase.HELD)
        self._waits.forget(job_id)

    def dooms(self, job: Job, dependencies: Iterable[Dependency]) -> bool:
        """Let a held job wait for these dependencies; returns whether it can never start, which is then handed out."""
        doomed: Doomed | None
        if (why := self._stops.stop_of(job.job_id)) is not None and not _has_begun(job):
            doomed = Doomed(job.job_id, True, why, by_batch=True)
        else:
            doomed = self._waits.begin(job.job_id, dependencies)
        if doomed is not None:
            self._doomed.append(doomed)
        return doomed is not None

    def let_go(self, entry: Entry) -> None:
        """Give a held job, which is not doomed, the phase that its dependencies and its deferral say."""
        phase = self._undeferred(entry.job.job_id) if entry.deferral is None else Phase.DEFERRED
        self._entries.move(entry, phase)

    def begin_due(self, now_s: float) -> tuple[JobId, ...]:
        """Let the deferred jobs whose instants have come wait for nothing else; a clock set back defers none again."""
        due = self._entries.deferrals.due(now_s)
        for job_id in due:
            self.touched += 1
            self._entries.move(self._entries[job_id], self._undeferred(job_id))
        return due

    def failed_before(self, jobs: Iterable[Job]) -> None:
        """Count failed jobs found at start for their batches. Call after `enter` of all that have not ended."""
        self._stops.failed_before(jobs)
        for job_id in self._stops.stopped():
            self._stop(job_id)

    def end(self, job_id: JobId, state: JobState) -> None:
        """Take note that a job has ended: of those that depend on it, and of its batch."""
        self.found(job_id, state)
        for other in self._stops.end(job_id, state):
            self._stop(other)

    def found(self, job_id: JobId, state: JobState | None) -> None:
        """Judge the jobs that depend on one that has this final state; None: there is no such job."""
        for dependent in self._waits.dependents(job_id):
            self._history.note(self._entries[dependent])
        for dependent, doomed in self._waits.end(job_id, state).items():
            self.touched += 1
            if doomed is not None:
                self._doomed.append(doomed)
                self.hold(dependent)
            elif dependent not in self._waits:
                self._unblock(dependent)

    def take_doomed(self) -> tuple[Doomed, ...]:
        """The jobs that can never start, new since the last call; each is held."""
        doomed, self._doomed = tuple(self._doomed), []
        return doomed

    def take_unblocked(self) -> tuple[JobId, ...]:
        """The jobs, new since the last call, whose last dependency is met."""
        unblocked, self._unblocked = tuple(self._unblocked), []
        return unblocked

    def _unblock(self, job_id: JobId) -> None:
        entry = self._entries[job_id]
        if entry.phase is Phase.BLOCKED:
            self._unblocked.append(job_id)
            self._entries.move(entry, Phase.READY)

    def _undeferred(self, job_id: JobId) -> Phase:
        return Phase.BLOCKED if job_id in self._waits else Phase.READY

    def _stop(self, job_id: JobId) -> None:
        """End a job of a batch that has stopped, unless it has begun; one whose file is rewritten ends after that.

        One with a process that still waits for locks is paused, and ends when it comes back to the queue.
        """
        entry, why = self._entries[job_id], self._stops.stop_of(job_id)
        if why is None or _has_begun(entry.job):
            return
        self.touched += 1
        if entry.phase in AT_REST:
            self.hold(job_id)
            self._doomed.append(Doomed(job_id, True, why, by_batch=True))
        else:
            self._entries.pausing.stop(entry)


def _has_begun(job: Job) -> bool:
    """Whether the job has ended an opcode, or tried one."""
    return job.next_index != 0 or next_try(job) is not None
