"""Which jobs wait for the end of others, and what an end means for them.

Only the dependencies of a job's next opcode count (DESIGN section 11): those of later ones are judged
when the job comes back to the queue.

Source: chained-jobs design; luxid.md 5.4.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from common.errors import InvalidRequest, Unavailable
from common.ids import JobId
from common.queue.jobs import Dependency, DependencyVerdict, Job, JobState, judge
from daemons.luxid.core.queue.entry import Doomed


class UnmetDependencies:
    """The unmet dependencies of blocked jobs.

    Args:
        state_of: the state of a job, any that is not final while it has not ended; None: there is no such job;
            raises Unavailable: that cannot be told for the moment. Then it is waited for, as one that has not ended.
    """

    def __init__(self, state_of: Callable[[JobId], JobState | None]) -> None:
        self._state_of = state_of
        # blocked job -> job that it waits for -> why
        self._unmet: dict[JobId, dict[JobId, list[Dependency]]] = {}
        # job -> the blocked jobs that wait for it
        self._dependents: dict[JobId, set[JobId]] = {}
        # jobs that are waited for because their states could not be told, since these were last taken
        self._unknown: set[JobId] = set()

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._unmet

    def begin(self, job_id: JobId, dependencies: Iterable[Dependency]) -> Doomed | None:
        """Let a job, which waits for nothing, wait for those of its dependencies that are not met.

        Returns: why they can never be met; None: they can.
        """
        unmet: dict[JobId, list[Dependency]] = {}
        for dependency in dependencies:
            target = JobId(dependency.job_id)
            try:
                state = self._state_of(target)
            except Unavailable:
                self._unknown.add(target)
                unmet.setdefault(target, []).append(dependency)
                continue
            verdict = _judge(dependency, state)
            if verdict is DependencyVerdict.WAIT:
                unmet.setdefault(target, []).append(dependency)
            elif verdict is not DependencyVerdict.MET:
                return _doomed(job_id, dependency, state)
        if unmet:
            self._unmet[job_id] = unmet
            for target in unmet:
                self._dependents.setdefault(target, set()).add(job_id)
        return None

    @property
    def by_target(self) -> Mapping[JobId, Collection[JobId]]:
        """The jobs that are waited for -> those that wait."""
        return self._dependents

    @property
    def by_job(self) -> Mapping[JobId, Collection[JobId]]:
        """The jobs that wait -> those that are waited for."""
        return self._unmet

    def dependents(self, target: JobId) -> frozenset[JobId]:
        """The jobs that wait for this one."""
        return frozenset(self._dependents.get(target, ()))

    def take_unknown(self) -> tuple[JobId, ...]:
        """The jobs, new since the last call, whose states could not be told; `end` is to be called when they can."""
        unknown, self._unknown = tuple(sorted(self._unknown)), set()
        return unknown

    def end(self, target: JobId, state: JobState | None) -> dict[JobId, Doomed | None]:
        """Take note that a job ended, or that there is none; returns the jobs that waited for it, each with why its
        dependencies can never be met."""
        return {job_id: self._judge_end(job_id, target, state) for job_id in sorted(self._dependents.pop(target, ()))}

    def forget(self, job_id: JobId) -> None:
        """Let the job wait for nothing any more."""
        for target in self._unmet.pop(job_id, ()):
            dependents = self._dependents[target]
            dependents.discard(job_id)
            if not dependents:
                del self._dependents[target]

    def of(self, job_id: JobId) -> Mapping[JobId, list[Dependency]]:
        """Return what the job waits for."""
        return self._unmet.get(job_id, {})

    def awaited(self) -> dict[JobId, list[tuple[JobId, Dependency]]]:
        """The jobs that blocked ones wait for, each with those that wait, by id, and why."""
        return {
            target: [(job_id, dependency) for job_id in sorted(waiting) for dependency in self._unmet[job_id][target]]
            for target, waiting in self._dependents.items()
        }

    def _judge_end(self, job_id: JobId, target: JobId, state: JobState | None) -> Doomed | None:
        unmet = self._unmet[job_id]
        for dependency in unmet.pop(target):
            if _judge(dependency, state) is not DependencyVerdict.MET:
                self.forget(job_id)
                return _doomed(job_id, dependency, state)
        if not unmet:
            del self._unmet[job_id]
        return None


def next_dependencies(job: Job) -> tuple[Dependency, ...]:
    """The dependencies of the job's next opcode; one whose form is unknown to us has none (luxid.md 3.1)."""
    index = job.next_index
    return () if index is None else _of_opcode(job, index)


def all_dependencies(job: Job) -> tuple[Dependency, ...]:
    """Those of all opcodes of the job, whether they are met or not."""
    return tuple(each for index in range(len(job.ops)) for each in _of_opcode(job, index))


def _of_opcode(job: Job, index: int) -> tuple[Dependency, ...]:
    try:
        depends = job.ops[index].input.get("depends")
        return tuple(map(Dependency.from_wire, depends)) if depends else ()
    except (InvalidRequest, TypeError):
        return ()


def _judge(dependency: Dependency, state: JobState | None) -> DependencyVerdict:
    return judge(dependency, state) if state is not None else DependencyVerdict.FAIL


def _doomed(job_id: JobId, dependency: Dependency, state: JobState | None) -> Doomed:
    if _judge(dependency, state) is DependencyVerdict.CANCEL:
        return Doomed(job_id, True, f"dependency job {dependency.job_id} was canceled")
    return Doomed(job_id, False, _failure(dependency, state))


def _failure(dependency: Dependency, state: JobState | None) -> str:
    if state is None:
        return f"dependency job {dependency.job_id} is neither in the queue nor in the archive"
    wanted = ", ".join(sorted(wanted.value for wanted in dependency.wanted)) or "success, error"
    return f"dependency job {dependency.job_id} ended with status '{state.value}', not one of {wanted}"
