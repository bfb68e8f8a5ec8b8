"""How much a queued job would get in the way of the running ones: its lock weight, and how that fades with age.

Theory. On each level a declaration amounts to one *taking*, or two: none, or shared or exclusive, each of named,
unknown or all locks. The table says what a pending taking costs beside a running one; on a level the dearest
pair counts. The sum over the levels and a base is the static weight. A job that takes the BGL itself, and each job
that needs the BGL at all while a running one has it alone, costs the base and BGL_PENALTY instead.

The weight fades: `static * max(0, 1 - ticks/K)`, where ticks is the job's age in whole ticks. Ticks are
counted on the clock's own line (tick n is from n * tick_s to (n + 1) * tick_s), for all jobs alike: so of two jobs
the one received earlier is at each moment at least as old in ticks as the other, and an order by age never turns
around. After K ticks a job weighs nothing, and whatever comes later weighs something or is younger:
so no job waits for ever behind lighter ones of the same priority.

Source: predictive-queue design; luxid.md 5.11; DESIGN section 6.
"""

import enum
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final

import attrs

from common.ids import JobId
from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import BGL, Lock, LockLevel, LockMode, meets
from common.objects.config import Config
from common.objects.kinds import short_names
from common.queue.jobs import Timestamp


class Taking(enum.IntEnum):
    """What a job takes on a level; the number is its row or column of the table."""

    NONE = 0
    SHARED_NAMED = 1
    SHARED_UNKNOWN = 2
    SHARED_ALL = 3
    EXCLUSIVE_NAMED = 4
    EXCLUSIVE_UNKNOWN = 5
    EXCLUSIVE_ALL = 6

    # the one of Enum is slow, and takings are parts of keys
    __hash__ = int.__hash__


# on these levels locks have names, and the weights are summed up
LEVELS: Final = (LockLevel.NODEGROUP, LockLevel.INSTANCE, LockLevel.NODE, LockLevel.NODE_RES, LockLevel.NETWORK)

# rows: pending; columns: running; both named: without a common name
PAIR_WEIGHTS: Final = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.3, 0.0, 0.0, 0.0, 0.3, 1.5, 3.0),
    (0.3, 0.3, 0.3, 0.3, 1.5, 1.5, 3.0),
    (0.3, 0.3, 0.3, 0.3, 3.0, 3.0, 3.0),
    (0.5, 0.5, 1.5, 3.0, 0.5, 1.5, 3.0),
    (0.5, 1.5, 1.5, 3.0, 1.5, 1.5, 3.0),
    (0.5, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0),
)
# weight of a name in common if one of the two is exclusive: the greatest of all
CLASH: Final = 3.0
BGL_PENALTY: Final = 15.0

_TAKINGS: Final = {
    (LockMode.SHARED, Scope.NAMED): Taking.SHARED_NAMED,
    (LockMode.SHARED, Scope.UNKNOWN): Taking.SHARED_UNKNOWN,
    (LockMode.SHARED, Scope.ALL): Taking.SHARED_ALL,
    (LockMode.EXCLUSIVE, Scope.NAMED): Taking.EXCLUSIVE_NAMED,
    (LockMode.EXCLUSIVE, Scope.UNKNOWN): Taking.EXCLUSIVE_UNKNOWN,
    (LockMode.EXCLUSIVE, Scope.ALL): Taking.EXCLUSIVE_ALL,
}


@attrs.frozen
class WeightRules:
    """The settings."""

    # False: all weights are 0, so that jobs go by priority and age alone
    is_enabled: bool = True
    base: float = 1.0
    # seconds
    tick_s: float = 30.0
    # ticks after which a job weighs nothing (K)
    ticks: int = 30

    def tick(self, at_s: float) -> int:
        """The number of the tick of a moment, in seconds since the epoch."""
        return math.floor(at_s / self.tick_s)

    def received_tick(self, received_at: Timestamp | None) -> int:
        """The tick in which a job was received; 0 if that is not known."""
        return self.tick(received_at[0]) if received_at else 0

    def factor(self, received_tick: int, now_tick: int) -> float:
        """1 for a new job, 0 for one of K ticks and more."""
        return max(0.0, 1.0 - max(0, now_tick - received_tick) / self.ticks)

    def total(self, level_weights: Iterable[float]) -> float:
        """The static weight. The order of the levels makes no difference, not even in the last bit."""
        return math.fsum((self.base, *level_weights)) if self.is_enabled else 0.0

    def big_lock(self) -> float:
        """The static weight of a job that takes the BGL exclusively, or that needs it while another one does."""
        return self.total((BGL_PENALTY,))


def takings_of(entries: Iterable[LevelDeclaration]) -> tuple[Taking, ...]:
    """What a level's declarations amount to; never empty."""
    return _takings(tuple([(entry.mode, entry.scope) for entry in entries]))


@cache
def _takings(kinds: tuple[tuple[LockMode, Scope], ...]) -> tuple[Taking, ...]:
    return tuple(sorted({_TAKINGS[kind] for kind in kinds})) or (Taking.NONE,)


def level_weight(pending: Iterable[Taking], running: Iterable[Taking]) -> float:
    """The dearest pair, names aside; 0 when no job runs."""
    against = tuple(running)
    return max((PAIR_WEIGHTS[mine][other] for mine in pending for other in against), default=0.0)


# The locks of one opcode in the form in which they are compared: kinds by level, and names.
#
# Source: predictive-queue design; luxid.md 5.11; DESIGN section 11, "predicted weight".


# index in LEVELS, name
Name = tuple[int, str]

_NOTHING: Final[tuple[Taking, ...]] = (Taking.NONE,)
_INDEX_OF: Final = {level: index for index, level in enumerate(LEVELS)}


@attrs.frozen(cache_hash=True)
class NeedsShape:
    """The needs without their names. There are few shapes, however many jobs there are."""

    # takings of each level, in the order of LEVELS
    takings: tuple[tuple[Taking, ...], ...]
    # None: not even the BGL
    bgl: LockMode | None


@attrs.frozen(cache_hash=True)
class Needs:
    """The locks of an opcode; equal for jobs of one class."""

    shape: NeedsShape
    shared: tuple[Name, ...] = ()
    exclusive: tuple[Name, ...] = ()
    # False: the opcode cannot be read
    is_known: bool = True

    @property
    def takes_big_lock(self) -> bool:
        return self.shape.bgl is LockMode.EXCLUSIVE

    def names_at(self, level_index: int, names: Iterable[Name]) -> frozenset[str]:
        return frozenset(name for level, name in names if level == level_index)


# shapes are shared, as they are compared often
_shape: Final = lru_cache(maxsize=4096)(NeedsShape)


def needs_of(declaration: LockDeclaration) -> Needs:
    kinds: list[_Kind] = []
    shared: list[Name] = []
    exclusive: list[Name] = []
    for level, entries in declaration.levels.items():
        for entry in entries:
            kinds.append((level, entry.mode, entry.scope))
            if entry.names:
                names = shared if entry.mode is LockMode.SHARED else exclusive
                names += [(_INDEX_OF[level], name) for name in entry.names]
    return Needs(_shape_of(tuple(kinds), declaration.bgl), tuple(sorted(shared)), tuple(sorted(exclusive)))


_Kind = tuple[LockLevel, LockMode, Scope]


# of kinds of declarations there are few combinations, and each opcode of a queue has one
@lru_cache(maxsize=4096)
def _shape_of(kinds: tuple[_Kind, ...], bgl: LockMode | None) -> NeedsShape:
    of_levels = [_takings(tuple([(mode, scope) for level, mode, scope in kinds if level is each])) for each in LEVELS]
    return _shape(tuple(of_levels), bgl)


# needs of an opcode that cannot be read: before the start as heavy as the BGL, once it runs it holds nothing
UNREADABLE: Final = Needs(NeedsShape((_NOTHING,) * len(LEVELS), LockMode.EXCLUSIVE), is_known=False)
NO_NEEDS: Final = Needs(NeedsShape((_NOTHING,) * len(LEVELS), None))


def as_running(needs: Needs, held: Mapping[Lock, LockMode]) -> Needs:
    """Return what a running job takes: the locks it holds, and on levels where it holds none those it declared.

    A job asks for all locks of a level at once; so what it holds there is complete, and truer than the declaration.
    """
    declared = needs if needs.is_known else NO_NEEDS
    if not held:
        return declared
    takings: list[tuple[Taking, ...]] = []
    shared: list[Name] = []
    exclusive: list[Name] = []
    for level_index, level in enumerate(LEVELS):
        entries = tuple(_entries(level, held))
        takings.append(takings_of(entries) if entries else declared.shape.takings[level_index])
        named = [
            (level_index, lock.name, mode) for lock, mode in held.items() if lock.level is level and not lock.is_group
        ]
        if entries:
            shared += [(level_index, name) for level_index, name, mode in named if mode is LockMode.SHARED]
            exclusive += [(level_index, name) for level_index, name, mode in named if mode is LockMode.EXCLUSIVE]
        else:
            shared += [name for name in declared.shared if name[0] == level_index]
            exclusive += [name for name in declared.exclusive if name[0] == level_index]
    shape = _shape(tuple(takings), _bgl(held) or declared.shape.bgl)
    return Needs(shape, tuple(sorted(shared)), tuple(sorted(exclusive)))


def _entries(level: LockLevel, held: Mapping[Lock, LockMode]) -> Iterable[LevelDeclaration]:
    for lock, mode in held.items():
        if lock.level is level:
            yield LevelDeclaration(mode, Scope.ALL if lock.is_group else Scope.NAMED)


def _bgl(held: Mapping[Lock, LockMode]) -> LockMode | None:
    modes = {mode for lock, mode in held.items() if lock.level is LockLevel.CLUSTER and meets(BGL, lock)}
    return LockMode.EXCLUSIVE if LockMode.EXCLUSIVE in modes else LockMode.SHARED if modes else None


# The names of one lock: users declare jobs by name, and running jobs lock nodes, groups and networks by UUID.
#
# Theory. To compare the two, the locks of the few jobs with a process are widened by all other names of the same
# object, short host names included; the declarations of queued jobs stay as they are written. So a new configuration
# concerns only the jobs that run, and a job that was queued before its node got its name is compared right. An unknown
# name stands for itself alone, and so does a short name that two hosts share.
#
# Considered and rejected: putting the UUID into each declaration. A configuration that is read late, as after a
# restart, or that changes, would touch all queued jobs.
#
# Source: luxid.md 5.11; common/lockdecl.py.


Words = tuple[str, ...]
_NODE_LEVELS: Final = (LockLevel.NODE, LockLevel.NODE_RES)


class Aliases:
    """All names of the objects of one configuration.

    Args:
        objects: the levels on which an object is locked, and its names.
    """

    def __init__(self, objects: Iterable[tuple[Iterable[LockLevel], Words]] = ()) -> None:
        # names of objects; a name that two objects share is left out
        self._others: dict[Name, Words] = {}
        shared: set[Name] = set()
        for levels, words in objects:
            for level_index in map(LEVELS.index, levels):
                names = [(level_index, word) for word in words]
                shared.update(name for name in names if name in self._others)
                self._others.update(dict.fromkeys(names, words))
        for name in shared:
            del self._others[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aliases) and self._others == other._others

    def with_aliases(self, needs: Needs) -> Needs:
        """Return the needs with all aliases of their names."""
        if not self._others or not (needs.shared or needs.exclusive):
            return needs
        return Needs(needs.shape, self._all(needs.shared), self._all(needs.exclusive), needs.is_known)

    def _all(self, names: Iterable[Name]) -> tuple[Name, ...]:
        found = set(names)
        for name in names:
            others = ((name[0], word) for word in self._others.get(name, ()))
            found.update(other for other in others if other in self._others)
        return tuple(sorted(found))


def aliases_of(config: Config) -> Aliases:
    """Return the aliases of the nodes, groups and networks of a configuration; instances are locked by name."""
    return Aliases(_objects(config))


def _objects(config: Config) -> Iterator[tuple[Iterable[LockLevel], Words]]:
    for node in config.nodes.values():
        yield _NODE_LEVELS, (node.uuid, node.name, *short_names(node.name))
    for group in config.nodegroups.values():
        yield (LockLevel.NODEGROUP,), (group.uuid, group.name)
    for network in config.networks.values():
        yield (LockLevel.NETWORK,), (network.uuid, network.name)


# The locks that jobs with a process take, counted so that a queued job is weighed without looking at each of them.
#
# Source: luxid.md 5.11; DESIGN section 6, "Weights".


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

    def static_weight(self, shape: NeedsShape, clashes: int) -> float:
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


# The locks of a running job that add to the weight of a queued one, for explanations.
#
# Source: DESIGN section 6, "Explain"; luxid.md 5.11.


# Takings of locks that are all of a level, or not known yet: each lock of the level may be among them.
_UNNAMED: Final = {
    LockMode.SHARED: frozenset({Taking.SHARED_UNKNOWN, Taking.SHARED_ALL}),
    LockMode.EXCLUSIVE: frozenset({Taking.EXCLUSIVE_UNKNOWN, Taking.EXCLUSIVE_ALL}),
}
_NAMED: Final = {LockMode.SHARED: Taking.SHARED_NAMED, LockMode.EXCLUSIVE: Taking.EXCLUSIVE_NAMED}


def clashing_locks(
    needs: Needs, held: Mapping[Lock, LockMode], level_index: int | None
) -> Iterator[tuple[Lock, LockMode]]:
    """The held locks that a job with these needs might have to wait for, in lock order.

    Args:
        level_index: of a level in `LEVELS`; None: the BGL.
    """
    for lock, mode in sorted(held.items()):
        if level_index is None:
            if meets(BGL, lock):
                yield lock, mode
        elif lock.level is LEVELS[level_index] and _clashes(needs, level_index, lock, mode):
            yield lock, mode


def _clashes(needs: Needs, level_index: int, lock: Lock, mode: LockMode) -> bool:
    """As `common.locks.conflicts`, with needs that may have no names yet."""
    return any(mode.excludes(wanted) and _may_meet(needs, level_index, lock, wanted) for wanted in LockMode)


def _may_meet(needs: Needs, level_index: int, lock: Lock, wanted: LockMode) -> bool:
    """Whether a lock that is needed in this mode may be this one, its group or a member of it."""
    takings = needs.shape.takings[level_index]
    if _UNNAMED[wanted].intersection(takings) or (lock.is_group and _NAMED[wanted] in takings):
        return True
    return (level_index, lock.name) in (needs.shared if wanted is LockMode.SHARED else needs.exclusive)
