"""Run a trace through luxid's core in virtual time.

Theory. A heap holds two kinds of events: a job comes, a job ends. At one moment all ends come first, then the
arrivals in the order of the trace; then the core decides, as in luxid after each event. A job that
starts takes its slot and all units that it uses, and requests its locks at once; it keeps slot and units while it waits
for them. Starting costs
no time, and opcodes know all of their locks: only the order is left, and that is what is compared.
No random number is drawn and no clock is read: the same trace and policy give the same runs.
"""

import heapq
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import attrs

from common.ids import JobId
from common.locks import BGL, Lock, LockMode, meets
from common.queue.jobs import Job, JobOp, JobState, to_timestamp
from common.queue.terms import JobTerms, terms_entry
from common.resources import Resource
from daemons.luxid.core.choice.weights import WeightRules
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.resources import MAX_BYPASS
from daemons.luxid.simulate.trace import TraceJob

# The policies that are compared: settings of the queue's core, and whether priorities count.


@attrs.frozen
class Policy:
    name: str
    weights: WeightRules
    # False: all jobs have the same priority, in the queue and for locks
    has_priorities: bool = True


FIRST_COME = Policy("first come", WeightRules(is_enabled=False), has_priorities=False)
PRIORITY = Policy("priority", WeightRules(is_enabled=False))


def predictive(ticks: int, defaults: WeightRules) -> Policy:
    """A policy whose weights fade within K ticks; base and tick are the defaults'."""
    rules = WeightRules(base=defaults.base, tick_s=defaults.tick_s, ticks=ticks)
    return Policy(f"predictive K={ticks}", rules)


def policies(ticks: Sequence[int], defaults: WeightRules) -> tuple[Policy, ...]:
    """First come, priority alone, and prediction with each of these K."""
    return (FIRST_COME, PRIORITY, *(predictive(each, defaults) for each in dict.fromkeys(ticks)))


# A lock table for virtual time, in the simplest form: shared and exclusive, groups, and bounded bypassing.
#
# Theory. In a trace all locks of a job are known, so a job requests all of them at once, and holds nothing while it
# waits: there are no rings. Of wconfd's rules these remain. Two jobs conflict
# if two of their locks do (`common.locks.conflicts`). A request is granted whole or waits; when a job frees its
# locks, the waiting jobs are tried by (priority, job id). A waiting request that was passed `max_bypass` times
# by jobs that share what it wants exclusively is overdue, unless it conflicts with a request that is already overdue.
# From then on the jobs that conflict with it wait for it, as if it held its locks.
# Cost: linear in all held and waiting requests, which are at most as many as the slots.
#
# Source: wconfd.md 5.1 to 5.3; DESIGN section 5.


Locks = Mapping[Lock, LockMode]


@attrs.define(eq=False)
class _Waiting:
    priority: int
    job_id: JobId
    locks: Locks
    passes: int = 0

    @property
    def place(self) -> tuple[int, JobId]:
        return (self.priority, self.job_id)


class VirtualLocks:
    """The held locks and the waiting requests.

    Args:
        max_bypass: None: no bound.
    """

    def __init__(self, max_bypass: int | None) -> None:
        self._max_bypass = max_bypass
        self._held: dict[JobId, Locks] = {}
        self._waiting: list[_Waiting] = []
        # overdue requests; no two of them conflict
        self._overdue: list[_Waiting] = []
        # requests that were passed often enough, but conflict with an overdue one
        self._ripe: list[_Waiting] = []

    def ask(self, job_id: JobId, priority: int, locks: Locks) -> bool:
        """Grant all of these locks, or let the job wait for them; return whether they were granted."""
        asked = _Waiting(priority, job_id, locks)
        if self._may_have(asked):
            self._grant(asked)
            return True
        self._waiting.append(asked)
        self._waiting.sort(key=lambda each: each.place)
        if self._max_bypass == 0 and LockMode.EXCLUSIVE in locks.values():
            self._ripen([asked])
        return False

    def free(self, job_id: JobId) -> list[JobId]:
        """Release all locks of the job; return the jobs whose requests are granted by that, in order."""
        self._held.pop(job_id, None)
        granted: list[JobId] = []
        # a grant frees no lock, so one pass is enough
        for each in tuple(self._waiting):
            if self._may_have(each):
                self._leave(each)
                self._grant(each)
                granted.append(each.job_id)
        return granted

    def _leave(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._ripe = [each for each in self._ripe if each is not waiting]
        if waiting in self._overdue:
            self._overdue.remove(waiting)
            self._ripen([])

    def _may_have(self, asked: _Waiting) -> bool:
        in_the_way = [*self._held.values(), *(each.locks for each in self._overdue if each is not asked)]
        return not any(conflict(asked.locks, locks) for locks in in_the_way)

    def _grant(self, asked: _Waiting) -> None:
        self._held[asked.job_id] = asked.locks
        passed = [each for each in self._waiting if _is_passed(each.locks, asked.locks)]
        for each in passed:
            each.passes += 1
        self._ripen([each for each in passed if each.passes == self._max_bypass])

    def _ripen(self, waiting: Iterable[_Waiting]) -> None:
        """Make these, which were passed often enough, overdue where possible, the earliest first."""
        ripe, self._ripe = [*self._ripe, *waiting], []
        for each in ripe:
            is_kept_back = any(conflict(each.locks, other.locks) for other in self._overdue)
            (self._ripe if is_kept_back else self._overdue).append(each)


def conflict(mine: Locks, others: Locks) -> bool:
    """Whether two jobs cannot hold these locks at the same time."""
    small, large = sorted((mine, others), key=len)
    return any(mode.excludes(other) for lock, mode in small.items() for other in _modes_at(lock, large))


def _is_passed(wanted: Locks, granted: Locks) -> bool:
    """Whether the grant shares what is wanted exclusively."""
    return any(
        mode is LockMode.EXCLUSIVE and LockMode.SHARED in _modes_at(lock, granted) for lock, mode in wanted.items()
    )


def _modes_at(lock: Lock, locks: Locks) -> Iterable[LockMode]:
    """The modes of the locks that overlap this one; found by look-ups, unless it is a group."""
    if lock.is_group:
        return [mode for other, mode in locks.items() if meets(lock, other)]
    group = lock.group
    met = [locks[lock]] if lock in locks else []
    return [*met, locks[group]] if group is not None and group in locks else met


# order of events at one moment
_END, _ARRIVAL = 0, 1


@attrs.frozen
class SimulatedLimits:
    """Limits of the installation; settings of the same names."""

    slots: int = 50
    # None: no bound
    max_bypass: int | None = 16
    max_unit_bypass: int = MAX_BYPASS
    # no job of the trace uses more
    resources: tuple[Resource, ...] = ()


@attrs.frozen
class Run:
    """The outcome of a job of the trace; its number counts from 1, by arrival."""

    number: int
    job: TraceJob
    # seconds: start of its slot, start of its work, end
    started_s: float
    executed_s: float
    ended_s: float

    @property
    def wait_s(self) -> float:
        """Seconds from its arrival to the start of its work."""
        return self.executed_s - self.job.arrival_s

    @property
    def blocked_s(self) -> float:
        """Seconds with a slot but without its locks."""
        return self.executed_s - self.started_s


def replay(trace: Sequence[TraceJob], policy: Policy, limits: SimulatedLimits) -> tuple[Run, ...]:
    """Run the trace, whose jobs are in the order of arrival; the runs have the same order."""
    return _Replay(trace, policy, limits).run()


class _Replay:
    def __init__(self, trace: Sequence[TraceJob], policy: Policy, limits: SimulatedLimits) -> None:
        self._trace = trace
        self._policy = policy
        self._queue = JobQueue(limits.slots, limits.slots, _nothing_archived, policy.weights, limits.max_unit_bypass)
        self._queue.units.replace(limits.resources)
        self._locks = VirtualLocks(limits.max_bypass)
        self._events = [(job.arrival_s, _ARRIVAL, JobId(number)) for number, job in enumerate(trace, 1)]
        self._started: dict[JobId, float] = {}
        self._executed: dict[JobId, float] = {}
        self._ended: dict[JobId, float] = {}

    def run(self) -> tuple[Run, ...]:
        heapq.heapify(self._events)
        while self._events:
            now_s = self._events[0][0]
            while self._events and self._events[0][0] == now_s:
                _, kind, job_id = heapq.heappop(self._events)
                (self._end if kind == _END else self._arrive)(job_id, now_s)
            for job_id in self._queue.decide(now_s).start:
                self._start(job_id, now_s)
        return tuple(
            Run(number, job, self._started[number], self._executed[number], self._ended[number])
            for number, job in zip(map(JobId, range(1, len(self._trace) + 1)), self._trace, strict=True)
        )

    def _arrive(self, job_id: JobId, now_s: float) -> None:
        job = self._trace[job_id - 1]
        locks = {str(lock): mode.value for lock, mode in job.locks.items()}
        reason = [terms_entry(JobTerms(uses=job.uses), 0).to_wire()] if job.uses else []
        op = JobOp({"OP_ID": "OP_TEST_DUMMY", "locks": locks, "reason": reason}, priority=self._priority(job_id))
        self._queue.add(Job(job_id, (op,), received_at=to_timestamp(now_s)))

    def _start(self, job_id: JobId, now_s: float) -> None:
        self._started[job_id] = now_s
        self._queue.started(job_id)
        if self._locks.ask(job_id, self._priority(job_id), self._wanted(job_id)):
            self._execute((job_id,), now_s)

    def _execute(self, granted: Iterable[JobId], now_s: float) -> None:
        for job_id in granted:
            self._executed[job_id] = now_s
            self._queue.set_locks(job_id, self._wanted(job_id))
            heapq.heappush(self._events, (now_s + self._trace[job_id - 1].duration_s, _END, job_id))

    def _end(self, job_id: JobId, now_s: float) -> None:
        self._ended[job_id] = now_s
        granted = self._locks.free(job_id)
        self._queue.end(job_id, JobState.SUCCESS)
        self._queue.forget(job_id)
        self._execute(granted, now_s)

    def _wanted(self, job_id: JobId) -> dict[Lock, LockMode]:
        """The locks of a job process: the BGL is shared unless it is named."""
        return {BGL: LockMode.SHARED, **self._trace[job_id - 1].locks}

    def _priority(self, job_id: JobId) -> int:
        return self._trace[job_id - 1].priority if self._policy.has_priorities else 0


def _nothing_archived(_: JobId) -> None:
    return None


# The results of a run: its length, the waits, and the time spent on waiting for locks.


@attrs.frozen
class Measures:
    """The results of one policy; all times in seconds."""

    policy: str
    # time from the first arrival to the last end
    makespan_s: float
    # waits from arrival until the work begins; the 95th percentile is a wait that occurred (nearest rank)
    mean_wait_s: float
    p95_wait_s: float
    longest_wait_s: float
    # time with a slot and without locks, over all jobs; and its share of all time in slots
    blocked_s: float
    blocked_share: float
    # longest wait divided by that of the first policy; None: no job waited there
    starvation: float | None


def measure(policy: str, runs: Sequence[Run], baseline: Sequence[Run]) -> Measures:
    """Args: runs, baseline: at least one."""
    waits = sorted(run.wait_s for run in runs)
    blocked_s = math.fsum(run.blocked_s for run in runs)
    in_slots_s = math.fsum(run.ended_s - run.started_s for run in runs)
    longest_before_s = max(run.wait_s for run in baseline)
    return Measures(
        policy=policy,
        makespan_s=max(run.ended_s for run in runs) - min(run.job.arrival_s for run in runs),
        mean_wait_s=statistics.fmean(waits),
        p95_wait_s=waits[math.ceil(0.95 * len(waits)) - 1],
        longest_wait_s=waits[-1],
        blocked_s=blocked_s,
        blocked_share=blocked_s / in_slots_s if in_slots_s else 0.0,
        starvation=waits[-1] / longest_before_s if longest_before_s else None,
    )
