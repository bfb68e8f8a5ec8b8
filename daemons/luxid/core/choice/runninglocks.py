"""The locks that jobs with a process take, counted so that a queued job is weighed without looking at each of them.

Source: luxid.md 5.11; DESIGN section 6, "Weights".
"""

from collections.abc import Iterator, Mapping

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode
from daemons.luxid.core.choice.aliases import Aliases
from daemons.luxid.core.choice.needs import Name, Needs, Shape, as_running
from daemons.luxid.core.choice.weights import CLASH, LEVELS, PAIR_WEIGHTS, Taking, WeightRules, level_weight


@attrs.frozen
class NameChange:
    """A lock name that its first running job has just taken, or its last one has just let go."""

    name: Name
    # True: taken in exclusive mode; False: in any mode
    is_exclusive: bool
    is_taken: bool


@attrs.define
class _Runner:
    declared: Needs
    held: Mapping[Lock, LockMode]
    taken: Needs


class RunningLocks:
    """The locks that running jobs take: those they hold and, where that is unknown, those they declared."""

    def __init__(self, rules: WeightRules) -> None:
        self._rules = rules
        self._runners: dict[JobId, _Runner] = {}
        self._aliases = Aliases()
        # number of jobs by level and taking
        self._present = [[0] * len(Taking) for _ in LEVELS]
        # number of jobs that take a name, in any mode and in exclusive mode; no zeros
        self._any: dict[Name, int] = {}
        self._exclusive: dict[Name, int] = {}
        # number of jobs that take the BGL exclusively
        self._bgl = 0
        # counter that grows when a static weight may have changed
        self.epoch = 0

    def declare(self, job_id: JobId, declared: Needs) -> list[NameChange]:
        """Take note that the job has a process, and that its opcode declares this."""
        runner = self._runners.get(job_id)
        return self._take(job_id, declared, runner.held if runner else {})

    def set_held(self, job_id: JobId, held: Mapping[Lock, LockMode]) -> list[NameChange]:
        """Take note that the job holds exactly these locks; ignored if it has no known process."""
        runner = self._runners.get(job_id)
        return self._take(job_id, runner.declared, held) if runner else []

    def set_aliases(self, aliases: Aliases) -> list[NameChange]:
        """Use these aliases from now on. Cost: linear in the jobs with a process."""
        if aliases == self._aliases:
            return []
        self._aliases = aliases
        runners = list(self._runners.items())
        return [change for job_id, each in runners for change in self._take(job_id, each.declared, each.held)]

    def leave(self, job_id: JobId) -> list[NameChange]:
        """Take note that the process of the job is gone."""
        runner = self._runners.pop(job_id, None)
        return self._count(runner.taken, -1) if runner else []

    def held_locks(self, job_id: JobId) -> Mapping[Lock, LockMode]:
        """Return the locks that a job with a process holds, as far as known."""
        runner = self._runners.get(job_id)
        return runner.held if runner else {}

    def with_aliases(self, needs: Needs) -> Needs:
        """Return the needs with all aliases of their names."""
        return self._aliases.with_aliases(needs)

    def is_taken(self, name: Name, *, exclusively: bool) -> bool:
        return name in (self._exclusive if exclusively else self._any)

    def static_weight(self, shape: Shape, clashes: int) -> float:
        """Return the static weight of jobs of this shape.

        Args:
            clashes: one bit for each level on which a name of theirs clashes with a running job's.
        """
        if shape.bgl is LockMode.EXCLUSIVE or (self._bgl and shape.bgl is not None):
            return self._rules.big_lock()
        return self._rules.total(
            CLASH if clashes >> level_index & 1 else self._mildest(level_index, takings)
            for level_index, takings in enumerate(shape.takings)
        )

    def weight_of(self, needs: Needs) -> float:
        """Return the static weight of a job with these needs."""
        clashing = {name[0] for name in needs.shared if self.is_taken(name, exclusively=True)}
        clashing |= {name[0] for name in needs.exclusive if self.is_taken(name, exclusively=False)}
        return self.static_weight(needs.shape, sum(1 << level_index for level_index in clashing))

    def causes(self, needs: Needs) -> Iterator[tuple[int | None, float, tuple[JobId, ...]]]:
        """Yield for each level the weight there and the running jobs that cause it; the level None is the BGL.

        Cost: linear in the jobs that run; for explanations.
        """
        if needs.takes_big_lock:
            yield None, self._rules.big_lock(), ()
            return
        holders = [job_id for job_id, runner in self._runners.items() if runner.taken.takes_big_lock]
        if holders and needs.shape.bgl is not None:
            yield None, self._rules.big_lock(), tuple(sorted(holders))
            return
        for level_index in range(len(LEVELS)):
            weights = {job_id: _pair(needs, runner.taken, level_index) for job_id, runner in self._runners.items()}
            worst = max(weights.values(), default=0.0)
            if worst > 0:
                yield level_index, worst, tuple(sorted(job_id for job_id, weight in weights.items() if weight == worst))

    def _mildest(self, level_index: int, takings: tuple[Taking, ...]) -> float:
        present = self._present[level_index]
        return max(PAIR_WEIGHTS[mine][other] if present[other] else 0.0 for mine in takings for other in Taking)

    def _take(self, job_id: JobId, declared: Needs, held: Mapping[Lock, LockMode]) -> list[NameChange]:
        taken = self._aliases.with_aliases(as_running(declared, held))
        before = self._runners.get(job_id)
        self._runners[job_id] = _Runner(declared, held, taken)
        if before is not None and before.taken == taken:
            return []
        changes = self._count(taken, 1)
        return changes + (self._count(before.taken, -1) if before else [])

    def _count(self, taken: Needs, step: int) -> list[NameChange]:
        self.epoch += 1
        self._bgl += step * taken.takes_big_lock
        for level_index, takings in enumerate(taken.shape.takings):
            for taking in takings:
                self._present[level_index][taking] += step
        names = (*taken.shared, *taken.exclusive)
        return [
            *(NameChange(name, False, step > 0) for name in names if _crosses_zero(self._any, name, step)),
            *(
                NameChange(name, True, step > 0)
                for name in taken.exclusive
                if _crosses_zero(self._exclusive, name, step)
            ),
        ]


def _crosses_zero(counts: dict[Name, int], name: Name, step: int) -> bool:
    """Count the name; returns whether this was its first taker, or its last."""
    count = counts.pop(name, 0) + step
    if count:
        counts[name] = count
    return count == (step > 0)


def _pair(needs: Needs, taken: Needs, level_index: int) -> float:
    """The weight on one level against one running job."""
    mine, theirs = needs.names_at(level_index, needs.exclusive), taken.names_at(level_index, taken.exclusive)
    shared, their_shared = needs.names_at(level_index, needs.shared), taken.names_at(level_index, taken.shared)
    if mine & (theirs | their_shared) or shared & theirs:
        return CLASH
    return level_weight(needs.shape.takings[level_index], taken.shape.takings[level_index])
