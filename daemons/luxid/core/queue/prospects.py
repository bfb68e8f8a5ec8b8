"""The prospects of jobs without a process: ready, to wait for others or for an instant, or never to start.

A job that can never start is held and handed out as doomed, once: a dependency of it can no longer be met, or its batch
has stopped after failures. Its end comes only when the shell has made it durable, and may doom others then.

Source: DESIGN sections 6, 13 and 16; luxid.md 5.4.
"""

from collections.abc import Iterable

import attrs

from common.ids import JobId
from common.queue.jobs import Dependency, Job, JobState
from common.queue.reasons import JobOwner, batch_of, next_try, owner_of
from daemons.luxid.core.queue.dependents import UnmetDependencies
from daemons.luxid.core.queue.entries import Entries
from daemons.luxid.core.queue.entry import AT_REST, Doomed, Entry, Phase
from daemons.luxid.core.why.history import WaitHistory

# Batches that stop after failures: once too many of its jobs have failed, no further one begins.
#
# Theory. Only the jobs of batches that may stop are noted, by batch, from when they come until they end. A failure is
# counted for its batch; the one that is too much hands out the others, once. What has begun goes on; a job that has a
# process and still waits for locks is asked to pause, and does not begin again. A job that was canceled is no failure.
# Nothing is stored: after a restart the failed jobs that are still in the queue are counted.
#
# A batch is known by its id and its owner, so that a job of another user cannot stop it.
#
# Source: DESIGN section 13, "Fleet".


_Key = tuple[str, JobOwner | None]


@attrs.define
class _Batch:
    # number of failures that it bears
    allowed: int
    # jobs that have not ended
    members: dict[JobId, None] = attrs.field(factory=dict)
    failed: list[JobId] = attrs.field(factory=list)

    @property
    def is_stopped(self) -> bool:
        return len(self.failed) > self.allowed


class BatchStops:
    """The batches with jobs that have not ended and that stop after failures."""

    def __init__(self) -> None:
        self._batches: dict[_Key, _Batch] = {}
        self._keys: dict[JobId, _Key] = {}

    def enter(self, job: Job) -> None:
        """Note a job that has not ended; a second time nothing changes."""
        if (found := _place_of(job)) is not None:
            key, allowed = found
            self._keys[job.job_id] = key
            self._batches.setdefault(key, _Batch(allowed)).members[job.job_id] = None

    def failed_before(self, jobs: Iterable[Job]) -> None:
        """Count failed jobs found at start; those of batches without other jobs are forgotten.

        Call after `enter` of all that have not ended.
        """
        for job in jobs if self._batches else ():
            found = _place_of(job)
            if found is not None and found[0] in self._batches:
                self._batches[found[0]].failed.append(job.job_id)

    def end(self, job_id: JobId, state: JobState) -> tuple[JobId, ...]:
        """Take note that a job has ended; returns the jobs of a batch that this stops, of which some may have begun."""
        key = self._keys.pop(job_id, None)
        if key is None:
            return ()
        batch = self._batches[key]
        del batch.members[job_id]
        was_stopped = batch.is_stopped
        if state is JobState.ERROR:
            batch.failed.append(job_id)
        if not batch.members:
            del self._batches[key]
        return tuple(batch.members) if batch.is_stopped and not was_stopped else ()

    def stop_of(self, job_id: JobId) -> str | None:
        """Why the job must not begin any more; None: it may."""
        batch = self._batches[key] if (key := self._keys.get(job_id)) is not None else None
        if batch is None or not batch.is_stopped:
            return None
        count, last = len(batch.failed), batch.failed[-1]
        failed = (
            f"job {last} of its batch failed" if count == 1 else f"{count} jobs of its batch failed, last job {last}"
        )
        return f"canceled before it began, as {failed}"

    def stopped(self) -> tuple[JobId, ...]:
        """The jobs of batches that have stopped, of which some may have begun."""
        return tuple(job_id for batch in self._batches.values() if batch.is_stopped for job_id in batch.members)

    def __len__(self) -> int:
        return len(self._keys)


def _place_of(job: Job) -> tuple[_Key, int] | None:
    batch = batch_of(job)
    if batch is None or batch.failures is None:
        return None
    return (batch.batch_id, owner_of(job)), batch.failures


class Prospects:
    """Moves jobs between held, blocked, deferred and ready, as what they wait for comes and ends."""

    def __init__(self, entries: Entries, waits: UnmetDependencies, history: WaitHistory) -> None:
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
