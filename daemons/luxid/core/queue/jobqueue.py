"""Which jobs wait, which may start, which can never start: the queue without its disk.

Theory. The shell reports events, each by one method, and then asks `decide` what follows. An event touches
the jobs it is about, those that depend on them, and the scheduling classes that name their locks or limits,
never all: `choice` tells how, with a drawing of the whole way. `touched` counts. Each part has a class: dependencies,
later begins and stopped batches `Prospects` here; the phases `Entries`; the rulings of the filters `Judging`; the order
of starts `ReadyJobs`.

A dependency that can no longer be met dooms its job, a rule may reject it: `decide` hands it out, held, and the
shell ends it on disk and reports that end, which may doom others. So verdicts spread by events, and
nothing is believed that is not durable.

Source: DESIGN section 6; chained-jobs, filters and predictive-queue designs; luxid.md 5, 6.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode
from common.objects.filter import FilterRule
from common.queue.explanation import Span
from common.queue.jobs import FINAL, Dependency, Job, JobState
from common.queue.reasons import JobOwner, batch_of, next_try, owner_of
from common.queue.terms import Deferral, deferral_of
from daemons.luxid.core.choice.limits import UNBOUNDED, LimitUsage, UserBounds, UserJobs
from daemons.luxid.core.choice.readyjobs import ReadyJobs, RunningJobs
from daemons.luxid.core.choice.weights import Aliases, RunningLocks, WeightRules
from daemons.luxid.core.filters.judging import Judging
from daemons.luxid.core.queue.dependents import UnmetDependencies, next_dependencies
from daemons.luxid.core.queue.entries import Entries
from daemons.luxid.core.queue.entry import AT_REST, Decisions, Doomed, Entry, Phase, Waited
from daemons.luxid.core.resources import MAX_BYPASS, UnitBook
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


# The prospects of jobs without a process: ready, to wait for others or for an instant, or never to start.
#
# A job that can never start is held and handed out as doomed, once: a dependency of it can no longer be met, or its
# batch has stopped after failures. Its end comes only when the shell has made it durable, and may doom others then.
#
# Source: DESIGN sections 6, 13 and 16; luxid.md 5.4.


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


# The final states of jobs that are not archived, and how many have each.
#
# Source: DESIGN section 6.


class FinalStates:
    """The final state of each ended job, until it is archived."""

    def __init__(self) -> None:
        self._states: dict[JobId, JobState] = {}
        self._jobs: dict[JobState, set[JobId]] = {state: set() for state in JobState if state in FINAL}

    def get(self, job_id: JobId) -> JobState | None:
        return self._states.get(job_id)

    def put(self, job_id: JobId, state: JobState) -> None:
        self.forget(job_id)
        self._states[job_id] = state
        self._jobs[state].add(job_id)

    def forget(self, job_id: JobId) -> None:
        if (state := self._states.pop(job_id, None)) is not None:
            self._jobs[state].discard(job_id)

    def counts(self) -> Mapping[JobState, int]:
        """The number of jobs in each final state. Cost: O(1)."""
        return {state: len(jobs) for state, jobs in self._jobs.items()}

    def of(self, states: Collection[JobState]) -> set[JobId]:
        """The jobs that have ended in one of these states. Cost: linear in them."""
        return set().union(*(jobs for state, jobs in self._jobs.items() if state in states))


# The queue as a whole.


# number of jobs, best first, that `decide` judges by a new chain to find one that may start
MOST_UNJUDGED: Final = 20


class JobQueue:
    """All jobs that have not ended, and the final states of those that others may depend on.

    Args:
        slots: jobs that may have a process at once.
        start_limit: jobs that may be `starting` at once.
        archived_state: the final state of a job that is no longer in the queue; None: there is none; raises
            Unavailable: that cannot be told for the moment. `decide` then asks for it, and `found` tells it.
        bounds: of each user.
    """

    def __init__(
        self,
        slots: int,
        start_limit: int,
        archived_state: Callable[[JobId], JobState | None],
        weights: WeightRules | None = None,
        max_unit_bypass: int = MAX_BYPASS,
        bounds: UserBounds = UNBOUNDED,
    ) -> None:
        self.users = UserJobs(slots, bounds)
        self._start_limit = start_limit
        self._archived_state = archived_state
        self.weights = weights or WeightRules()
        self.limit_usage = LimitUsage()
        self.running_locks = RunningLocks(self.weights)
        self.units = UnitBook(max_unit_bypass)
        self.ready = ReadyJobs(self.weights, self.running_locks, self.limit_usage, self.units, self.users)
        self._running_jobs = RunningJobs(self.ready, self.running_locks, self.limit_usage, self.units)
        self._waits = UnmetDependencies(self._state_of)
        self._history = WaitHistory(self.limit_usage, self._waits, self.units)
        self._entries = Entries(self.ready, self._running_jobs, self._history, self.users)
        self.running, self.counts = self._entries.running, self._entries.counts
        self.busy = self._entries.busy
        self.oldest_waiting, self.without_process = self._entries.oldest_waiting, self._entries.without_process
        self._judging = Judging(self._entries, self.ready, self._running_jobs, self.limit_usage)
        self.loads = self._judging.loads
        # the rule by which a job that is not yet in the queue is to be refused
        self.rejecting_rule = self._judging.rejecting_rule
        self._prospects = Prospects(self._entries, self._waits, self._history)
        # keeps the job from starting until it is added again or ends; allowed in any phase
        self.hold = self._prospects.hold
        self.ended = FinalStates()
        self._touched = 0
        # that of the newest entry
        self._last_tick = 0

    # what happened

    def add(self, job: Job) -> None:
        """A job without a process: new, or found at start, or left by its process between two opcodes."""
        self._enqueue(job, self._entry(job), next_dependencies(job), deferral_of(job))

    def add_all(self, jobs: Iterable[Job]) -> None:
        """`add` for jobs that may depend on each other, in any order.

        Of many jobs first all are read, then all are filed: that is faster by a fifth than one after the other.
        """
        for entry, depends, deferral in [(self._entry(job), next_dependencies(job), deferral_of(job)) for job in jobs]:
            self._enqueue(entry.job, entry, depends, deferral)

    def failed_before(self, jobs: Iterable[Job]) -> None:
        """Take note of jobs, found at start, that have failed; all that have not ended are here already."""
        self._prospects.failed_before(jobs)

    def adopt(self, job: Job) -> None:
        """A job found with a living process."""
        self._entries.move(self._entry(job), Phase.RUNNING)

    def started(self, job_id: JobId) -> None:
        """Take note that the process of a starting job is there."""
        self._entries.move(self._entries[job_id], Phase.RUNNING)

    def orphan(self, job: Job) -> None:
        """A job, as its file is, has no process, and its command may run on a node."""
        entry = self._entry(job)
        if entry.phase is not Phase.ORPHANED:
            self._judging.settle(entry)
            self._entries.move(entry, Phase.ORPHANED)
        self.advanced(job)

    def start_anew(self, job_id: JobId) -> None:
        """Take note that a process is being made for an orphaned job."""
        self._entries.move(self._entries[job_id], Phase.STARTING)

    def advanced(self, job: Job) -> None:
        """Take note that the file of a job changed; if it has a process, another opcode may be under way."""
        if self._entries.has_process(job.job_id):
            entry = self._entries[job.job_id]
            if self._judging.follow(entry, job):
                self._running_jobs.declare(job.job_id, entry.needs)

    def set_locks(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> None:
        """Take note that a job holds exactly these locks; ignored if it has no process."""
        self._running_jobs.set_held(job_id, held)

    def set_aliases(self, aliases: Aliases) -> None:
        """Use these aliases from now on. Cost: linear in the jobs with a process, and the classes they clash with."""
        self._running_jobs.set_aliases(aliases)

    def install_rules(self, rules: Iterable[FilterRule]) -> None:
        """Put these rules in force.

        Raises: InvalidRequest: one of them is wrong; those in force stay.
        """
        self._judging.replace(rules)

    def end(self, job_id: JobId, state: JobState, *, lives_on: bool = False) -> None:
        """Take note that the job is final, durably, and judge the jobs that depend on it.

        Args: lives_on: processes that it started may live under its locks: it keeps its units until `units.give`.
        """
        if job_id in self._entries:
            self.hold(job_id)
            self._judging.forget(self._entries[job_id])
            self._entries.drop(job_id, lives_on=lives_on)
        self.ended.put(job_id, state)
        self._prospects.end(job_id, state)

    def found(self, job_id: JobId, state: JobState | None) -> None:
        """Take the state of a job that is not in the queue and could not be told before; None: there is no such job."""
        self._prospects.found(job_id, state)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that has ended, as it is archived."""
        self.ended.forget(job_id)

    def perhaps_in(self, states: Collection[JobState]) -> set[JobId] | None:
        """All jobs that may be shown in one of these states, and others; None: that may be nearly all.

        Cost: linear in the returned jobs, however many are queued.
        """
        if JobState.QUEUED in states:
            return None
        # of a job whose first opcode has failed the others are about to be ended, too
        return self._entries.perhaps_not_queued(waiting=JobState.WAITING in states) | self.ended.of(states)

    # what follows

    def decide(self, now_s: float, *, may_start: bool = True) -> Decisions:
        """Decide what is to be done now; a second call right away gives nothing, unless the first was unfinished.

        Order of starts: standing of the user, priority, aged weight, age, job id.

        Args:
            now_s: seconds since the epoch.
        Cost: O(log n) for each job in the answer, and as `ReadyJobs.best`; with a new chain as `Judging.judge_slice`.
        """
        for job_id in self._judging.judge_slice():
            self.hold(job_id)
        begun = self._prospects.begin_due(now_s)
        doomed, unblocked = self._prospects.take_doomed(), self._prospects.take_unblocked()
        changes = self._entries.pausing.take_changes()
        start = tuple(self._picked(now_s)) if may_start and self._judging.is_best_known else ()
        self.ready.settle_units()
        return Decisions(
            start=start,
            waited=self._history.tell(now_s, may_start=may_start),
            doomed=doomed,
            rejected=self._judging.take_rejected(),
            unblocked=unblocked,
            begun=begun,
            unknown=self._waits.take_unknown(),
            pause=changes.pause,
            resume=changes.resume,
            is_unfinished=self._judging.is_unfinished,
        )

    def begins_at(self) -> float | None:
        """The instant at which the first of the deferred jobs begins, in seconds since the epoch; None: none does."""
        return self._entries.deferrals.first_at()

    def close(self, now_s: float) -> Iterator[Waited]:
        """Yield what held each job so far; nothing may be reported or asked afterwards."""
        return self._history.close(self._entries, now_s)

    # what is so

    @property
    def slots(self) -> int:
        """Jobs that may have a process at once."""
        return self.users.slots

    @slots.setter
    def slots(self, count: int) -> None:
        self.users.slots = count

    @property
    def touched(self) -> int:
        """Number of entries and classes looked at so far; its growth is the cost of an event."""
        return self._touched + self._prospects.touched + self._judging.touched + self.ready.touched

    @property
    def judged(self) -> int:
        """How often rules were tested on a job so far."""
        return self._judging.judged

    def entry(self, job_id: JobId) -> Entry | None:
        return self._entries.get(job_id)

    def phase(self, job_id: JobId) -> Phase | None:
        """The phase of a job; None: it has ended, or there never was one."""
        entry = self._entries.get(job_id)
        return entry.phase if entry else None

    def spans(self, job_id: JobId, now_s: float) -> tuple[Span, ...]:
        """What held the job so far, as far as that was not handed out; what still does has no end."""
        entry = self._entries.get(job_id)
        return self._history.spans(entry, now_s) if entry else ()

    def delayed(self, now_s: float, for_s: float) -> int:
        """As `WaitHistory.delayed`."""
        return self._history.delayed(now_s, for_s)

    def should_pause(self, job_id: JobId) -> bool:
        """Whether the running job is to stop before its next opcode."""
        return job_id in self._entries.pausing

    def waits_for(self, job_id: JobId) -> tuple[JobId, ...]:
        """The jobs that a blocked or deferred one waits for."""
        return tuple(sorted(self._waits.of(job_id)))

    def is_awaited(self, job_id: JobId) -> bool:
        """Whether a blocked job waits for this one."""
        return bool(self._waits.dependents(job_id))

    def dependencies(self, job_id: JobId) -> list[Dependency]:
        """What a blocked or deferred job waits for, and in which state."""
        return [dependency for _, unmet in sorted(self._waits.of(job_id).items()) for dependency in unmet]

    def awaited(self) -> dict[JobId, list[tuple[JobId, Dependency]]]:
        """The jobs that blocked ones wait for, each with those that wait, by id, and why."""
        return self._waits.awaited()

    @property
    def dependents(self) -> Mapping[JobId, Collection[JobId]]:
        """The jobs that blocked or deferred ones wait for -> those that wait; for reading at once."""
        return self._waits.by_target

    @property
    def targets(self) -> Mapping[JobId, Collection[JobId]]:
        """The blocked or deferred jobs that wait for others -> those that they wait for; for reading at once."""
        return self._waits.by_job

    def free_slots(self) -> int:
        return self.slots - self._entries.taken_slots()

    # one job

    def _entry(self, job: Job) -> Entry:
        entry = self._entries.get(job.job_id)
        if entry is None:
            tick = self.weights.received_tick(job.received_at)
            # of jobs that came together one object
            self._last_tick = self._last_tick if tick == self._last_tick else tick
            entry = self._judging.new_entry(job, self._last_tick, self.users.user_of(owner_of(job)))
            self._entries.add(entry)
            self._prospects.enter(job)
        return entry

    def _enqueue(self, job: Job, entry: Entry, dependencies: Iterable[Dependency], deferral: Deferral | None) -> None:
        self._touched += 1
        self.hold(job.job_id)
        self._judging.renew(entry, job)
        self._entries.pausing.let_go(entry)
        entry.deferral = deferral
        if not self._prospects.dooms(job, dependencies) and not self._judging.is_rejected(entry):
            self._prospects.let_go(entry)

    # choices

    def _picked(self, now_s: float) -> Iterator[JobId]:
        unjudged = 0
        while self._free_starts() > 0 and (job_id := self.ready.best(now_s)) is not None:
            if not self._judging.is_unjudged(job_id):
                self._entries.move(self._entries[job_id], Phase.STARTING)
                yield job_id
            elif unjudged < MOST_UNJUDGED:
                unjudged += 1
                if self._judging.judge(job_id):
                    self.hold(job_id)
            else:
                return

    def _free_starts(self) -> int:
        return min(self._start_limit - self._entries.count(Phase.STARTING), self.free_slots())

    def _state_of(self, job_id: JobId) -> JobState | None:
        if job_id in self._entries:
            return JobState.QUEUED
        return self.ended.get(job_id) or self._archived_state(job_id)
