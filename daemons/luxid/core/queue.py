"""Which jobs wait, which may start, which can never start: the queue without its disk.

Theory. Every job that has not ended has an entry, and the entry a phase:

    ready     its next opcode waits for nothing but a slot
    blocked   its next opcode waits for other jobs to end; it has no process and no slot
    held      luxid is rewriting its file; nobody may start it meanwhile
    starting  a process is being made for it; takes a slot
    running   it has a process; takes a slot

The shell reports events, each by one method, and then asks `decide` what follows. An event touches
the jobs it is about and those that depend on them, never all: the ready ones are kept sorted by
(priority, job id), and dependents are indexed by the job that they wait for. `touched` counts.

A dependency that can no longer be met dooms its job: `decide` hands it out, held, and the
shell ends it on disk and reports that end, which may doom others. So verdicts spread by events, and
nothing is believed that is not durable.

Only the dependencies of the next opcode count (DESIGN section 11): those of later ones are judged
when the job comes back to the queue.

Source: DESIGN section 6; chained-jobs design; luxid.md 5.2, 5.4.
"""

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
from sortedcontainers import SortedList

from common.dependencies import Dependency, DependencyVerdict, judge
from common.errors import InvalidRequest
from common.jobs import Job, JobState
from common.locks import JobId


class Phase(enum.Enum):
    """Where a job that has not ended stands; see the theory above."""

    READY = "ready"
    BLOCKED = "blocked"
    HELD = "held"
    STARTING = "starting"
    RUNNING = "running"


@attrs.frozen
class Doomed:
    """A job whose next opcode can never start, and why."""

    job_id: JobId
    # True: a job it depends on was canceled, so it is canceled too; else it fails
    is_canceled: bool
    reason: str


@attrs.frozen
class Decisions:
    # in this order; they are `starting` now
    start: tuple[JobId, ...] = ()
    # they are `held` now
    doomed: tuple[Doomed, ...] = ()
    # they waited for other jobs until just now, and read queued again
    unblocked: tuple[JobId, ...] = ()


@attrs.frozen
class QueueCounts:
    ready: int
    blocked: int
    held: int
    starting: int
    running: int

    @property
    def waiting_to_start(self) -> int:
        return self.ready + self.blocked + self.held


@attrs.define
class _Entry:
    phase: Phase
    priority: int
    # unmet dependencies of the next opcode by the job they name; empty unless blocked
    waits: dict[JobId, list[Dependency]]


class JobQueue:
    """All jobs that have not ended, and the final states of those that others may depend on.

    Args:
        slots: jobs that may have a process at once.
        start_limit: jobs that may be `starting` at once.
        archived_state: the final state of a job that is no longer in the queue; None: there is none.
    """

    def __init__(self, slots: int, start_limit: int, archived_state: Callable[[JobId], JobState | None]) -> None:
        self._slots = slots
        self._start_limit = start_limit
        self._archived_state = archived_state
        self._entries: dict[JobId, _Entry] = {}
        # holds: exactly the ready ones
        self._ready: Any = SortedList()
        # job -> the blocked jobs that wait for it
        self._dependents: dict[JobId, set[JobId]] = {}
        self._doomed: list[Doomed] = []
        self._unblocked: list[JobId] = []
        # ended, not archived
        self._ended: dict[JobId, JobState] = {}
        self._count = dict.fromkeys(Phase, 0)
        self._running: set[JobId] = set()
        # entries looked at so far; its growth is what an event costs
        self.touched = 0

    # what happened

    def add(self, job: Job) -> None:
        """A job without a process: new, or found at start, or left by its process between two opcodes."""
        entry = self._entries.get(job.job_id)
        if entry is None:
            entry = self._entries[job.job_id] = _Entry(Phase.HELD, 0, {})
            self._count[Phase.HELD] += 1
        self._place(job, entry)

    def add_all(self, jobs: Iterable[Job]) -> None:
        """`add` for jobs that may depend on each other, in any order."""
        jobs = list(jobs)
        for job in jobs:
            self._entries[job.job_id] = _Entry(Phase.HELD, 0, {})
            self._count[Phase.HELD] += 1
        for job in jobs:
            self.add(job)

    def adopt(self, job_id: JobId) -> None:
        """A job found with a living process."""
        self._entries[job_id] = _Entry(Phase.RUNNING, 0, {})
        self._count[Phase.RUNNING] += 1
        self._running.add(job_id)

    def started(self, job_id: JobId) -> None:
        """The start of this job, which is `starting`, came to a process."""
        self._move(job_id, self._entries[job_id], Phase.RUNNING)

    def hold(self, job_id: JobId) -> None:
        """Let nobody start the job until it is added again or ends; any phase allows it."""
        entry = self._entries[job_id]
        self._forget_waits(job_id, entry)
        self._move(job_id, entry, Phase.HELD)

    def end(self, job_id: JobId, state: JobState) -> None:
        """The job is final, durably; those that depend on it are judged."""
        entry = self._entries.get(job_id)
        if entry is not None:
            self.hold(job_id)
            del self._entries[job_id]
            self._count[Phase.HELD] -= 1
        self._ended[job_id] = state
        for dependent in sorted(self._dependents.pop(job_id, ())):
            self._judge_end(dependent, job_id, state)

    def forget(self, job_id: JobId) -> None:
        """The job, which has ended, is archived."""
        self._ended.pop(job_id, None)

    # what follows

    def decide(self, *, may_start: bool = True) -> Decisions:
        """What is to be done now; asking again right away gives nothing.

        Order of starts: priority, then job id.
        Cost: O(log n) for each job in the answer.
        """
        doomed, self._doomed = tuple(self._doomed), []
        unblocked, self._unblocked = tuple(self._unblocked), []
        return Decisions(tuple(self._picked()) if may_start else (), doomed, unblocked)

    def phase(self, job_id: JobId) -> Phase | None:
        """None: the job has ended, or there never was one."""
        entry = self._entries.get(job_id)
        return entry.phase if entry else None

    def is_blocked(self, job_id: JobId) -> bool:
        entry = self._entries.get(job_id)
        return entry is not None and entry.phase is Phase.BLOCKED

    def waits_for(self, job_id: JobId) -> tuple[JobId, ...]:
        """The jobs that a blocked one waits for."""
        entry = self._entries.get(job_id)
        return tuple(sorted(entry.waits)) if entry else ()

    def awaited(self) -> dict[JobId, frozenset[JobId]]:
        """The jobs that blocked ones wait for, each with those that wait."""
        return {job_id: frozenset(waiting) for job_id, waiting in self._dependents.items()}

    def running(self) -> frozenset[JobId]:
        return frozenset(self._running)

    def counts(self) -> QueueCounts:
        return QueueCounts(*(self._count[phase] for phase in Phase))

    def _picked(self) -> Iterator[JobId]:
        while self._ready and self._free_places() > 0:
            _, job_id = self._ready[0]
            self.touched += 1
            self._move(job_id, self._entries[job_id], Phase.STARTING)
            yield job_id

    def _free_places(self) -> int:
        starting = self._count[Phase.STARTING]
        return min(self._start_limit - starting, self._slots - starting - self._count[Phase.RUNNING])

    def _place(self, job: Job, entry: _Entry) -> None:
        self.touched += 1
        self._forget_waits(job.job_id, entry)
        self._move(job.job_id, entry, Phase.HELD)
        entry.priority = job.priority
        for dependency in next_dependencies(job):
            target = JobId(dependency.job_id)
            if not self._meets(job.job_id, dependency, self._state_of(target)):
                entry.waits.setdefault(target, []).append(dependency)
            if self._is_doomed(job.job_id):
                entry.waits.clear()
                return
        for target in entry.waits:
            self._dependents.setdefault(target, set()).add(job.job_id)
        self._move(job.job_id, entry, Phase.BLOCKED if entry.waits else Phase.READY)

    def _judge_end(self, job_id: JobId, target: JobId, state: JobState) -> None:
        self.touched += 1
        entry = self._entries[job_id]
        for dependency in entry.waits.pop(target):
            self._meets(job_id, dependency, state)
            if self._is_doomed(job_id):
                self.hold(job_id)
                return
        if not entry.waits:
            self._unblocked.append(job_id)
            self._move(job_id, entry, Phase.READY)

    def _meets(self, job_id: JobId, dependency: Dependency, state: JobState | None) -> bool:
        """Whether the dependency is met; one that never can be dooms the job."""
        verdict = judge(dependency, state) if state is not None else DependencyVerdict.FAIL
        match verdict:
            case DependencyVerdict.MET:
                return True
            case DependencyVerdict.CANCEL:
                self._doomed.append(Doomed(job_id, True, f"dependency job {dependency.job_id} was canceled"))
            case DependencyVerdict.FAIL:
                self._doomed.append(Doomed(job_id, False, _failure(dependency, state)))
            case DependencyVerdict.WAIT:
                pass
        return False

    def _is_doomed(self, job_id: JobId) -> bool:
        return bool(self._doomed) and self._doomed[-1].job_id == job_id

    def _state_of(self, job_id: JobId) -> JobState | None:
        if job_id in self._entries:
            return JobState.QUEUED
        return self._ended.get(job_id) or self._archived_state(job_id)

    def _forget_waits(self, job_id: JobId, entry: _Entry) -> None:
        for target in entry.waits:
            dependents = self._dependents[target]
            dependents.discard(job_id)
            if not dependents:
                del self._dependents[target]
        entry.waits.clear()

    def _move(self, job_id: JobId, entry: _Entry, phase: Phase) -> None:
        """The one place where a phase changes."""
        if entry.phase is Phase.READY:
            self._ready.remove((entry.priority, job_id))
        self._count[entry.phase] -= 1
        entry.phase = phase
        self._count[phase] += 1
        if phase is Phase.READY:
            self._ready.add((entry.priority, job_id))
        if phase is Phase.RUNNING:
            self._running.add(job_id)
        else:
            self._running.discard(job_id)


def next_dependencies(job: Job) -> tuple[Dependency, ...]:
    """The dependencies of the job's next opcode; one whose form is unknown to us has none (luxid.md 3.1)."""
    index = job.next_index
    if index is None:
        return ()
    try:
        return tuple(Dependency.from_wire(value) for value in job.ops[index].input.get("depends") or ())
    except (InvalidRequest, TypeError):
        return ()


def _failure(dependency: Dependency, state: JobState | None) -> str:
    if state is None:
        return f"dependency job {dependency.job_id} is neither in the queue nor in the archive"
    wanted = ", ".join(sorted(wanted.value for wanted in dependency.wanted)) or "success, error"
    return f"dependency job {dependency.job_id} ended with status '{state.value}', not one of {wanted}"
