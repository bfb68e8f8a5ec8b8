"""Run a trace through luxid's core in virtual time.

Theory. A heap holds two kinds of events: a job comes, a job ends. At one moment all ends come first, then the
arrivals in the order of the trace; then the core decides, as in luxid after each event. A job that
starts takes its slot and all units that it uses, and requests its locks at once; it keeps slot and units while it waits
for them. Starting costs
no time, and opcodes know all of their locks: only the order is left, and that is what is compared.
No random number is drawn and no clock is read: the same trace and policy give the same runs.
"""

import heapq
from collections.abc import Iterable, Sequence

import attrs

from common.ids import JobId
from common.locks import BGL, Lock, LockMode
from common.queue.jobs import Job, JobOp, JobState, to_timestamp
from common.queue.terms import JobTerms, terms_entry
from common.resources import Resource
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.resources.units import MAX_BYPASS
from daemons.luxid.simulate.policies import Policy
from daemons.luxid.simulate.trace import TraceJob
from daemons.luxid.simulate.virtuallocks import VirtualLocks

# order of events at one moment
_END, _ARRIVAL = 0, 1


@attrs.frozen
class Limits:
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


def replay(trace: Sequence[TraceJob], policy: Policy, limits: Limits) -> tuple[Run, ...]:
    """Run the trace, whose jobs are in the order of arrival; the runs have the same order."""
    return _Replay(trace, policy, limits).run()


class _Replay:
    def __init__(self, trace: Sequence[TraceJob], policy: Policy, limits: Limits) -> None:
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
            self._queue.locks_changed(job_id, self._wanted(job_id))
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
