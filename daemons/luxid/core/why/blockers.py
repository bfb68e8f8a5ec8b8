"""Who holds the most jobs back: the ends of all chains of waits, ranked by the jobs behind them.

Theory. A job waits for the end of other jobs, for the holders of its locks, or at a *gate*: a full limit, a resource of
which too few units are free, a rule that pauses, or the slots, all of which are taken. A gate waits for the jobs that
have its places, if only one of them goes on, or none: as long as several go on, any of them may open it, and the gate
itself is the answer. Whatever others wait for, and which waits for nothing itself, is a *root*. *Behind* it are all
jobs from which a chain of waits leads to it.

From each root the chains are followed backwards, a step for each job that others wait for. What waits at a gate is only
counted, as its class of jobs knows the number: of these jobs only those are looked at that others wait for. Steps are
bounded, for luxid stands still meanwhile: first come the holders of locks, then the gates, then the jobs with the most
direct dependents. A number that may be too small says so: the bound was reached, or two gates are behind one root and
may hold the same jobs. Where all owners of a chain wait in a ring, no root is behind them, and the ring is told in its
place.

Considered and rejected: to count each job for one root only (a job may wait for several), and to keep the numbers up to
date with each event (an end would touch all that are behind it).

Source: DESIGN section 6, "Explain".
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from math import inf
from typing import Final

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode, Owner
from daemons.luxid.core.choice.limits import BatchLimit, BucketLimit, Limit
from daemons.luxid.core.queue.entry import Entry, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from protocol.luxi.why import Blocker, BlockerKind, LongWait, WayStep
from protocol.wconfd.locks import LocksStatus

# The ranking.


# jobs that a blocker names
NAMED: Final = 10
# steps of a way that are told at its beginning and its end; a chain may be long
_FIRST_STEPS: Final = 3
_LAST_STEPS: Final = 3
# owners and gates after which the end of a way is not looked for any more
_MOST_SEEN: Final = 200
# dependents of a job that are taken in by one step
_TAKEN: Final = 32


# an owner of locks: a job, or the name of one that is none
LockOwner = JobId | str


@attrs.frozen
class HeldLock:
    """A lock that an owner waits for."""

    lock: str
    holder: LockOwner


@attrs.frozen(eq=False)
class Gate:
    """Where ready jobs wait together."""

    kind: BlockerKind
    name: str
    # ready jobs that it holds back
    held: int
    # the one that came first; None: it is not known
    first: JobId | None
    # jobs that have its places; none: it has none
    members: tuple[JobId, ...] = ()
    # places, or units, that are taken, and that there are; None: it has none
    used: int = 0
    limit: int | None = None


@attrs.frozen
class DirectWaits:
    """Who waits for whom, directly."""

    # job -> blocked jobs that wait for its end; none of these collections is empty
    dependents: Mapping[JobId, Collection[JobId]]
    # blocked job -> jobs that it waits for
    targets: Mapping[JobId, Collection[JobId]]
    # owner -> locks that it waits for; none is empty
    locks: Mapping[LockOwner, Sequence[HeldLock]]
    gates: Sequence[Gate]
    # the gates at which a ready job waits; none for all others
    gates_of: Callable[[JobId], Sequence[Gate]]
    # since when a job waits, in seconds since the epoch; None: that is not known
    since: Callable[[JobId], float | None]


Node = LockOwner | Gate


@attrs.frozen
class Ranked:
    # rings come first, then those with the most jobs behind them
    blockers: tuple[Blocker, ...]
    # whether the bound was reached before all roots were looked at
    is_partial: bool


def rank(waits: DirectWaits, most: int, steps: int) -> Ranked:
    """Return the rings, and the roots with the most jobs behind them; a tie is won by the longest wait.

    Args:
        most: number of blockers.
        steps: bound of the work.
    Cost: linear in steps, locks that are waited for, and gates; and a little for each job that is waited for.
    """
    return _Ranking(waits, steps).best(most)


def way_from(waits: DirectWaits, job_id: JobId) -> LongWait:
    """The wait of a job, with the shortest way to a root; or, if there is none, a way once around a ring."""
    return _long_wait(waits, job_id, _way(Chains(waits), job_id))


@attrs.define
class _Behind:
    """What was found behind a root."""

    root: Node
    jobs: set[JobId] = attrs.field(factory=set)
    # those that are no jobs
    others: set[str] = attrs.field(factory=set)
    gates: dict[Gate, None] = attrs.field(factory=dict)
    is_at_least: bool = False
    # they wait for each other; empty: the root waits for nothing
    ring: tuple[LockOwner, ...] = ()

    @property
    def count(self) -> int:
        held = [gate.held for gate in self.gates]
        # two gates may hold the same jobs
        return len(self.jobs) + (sum(held) if len(held) < 2 else max(held))


class Chains:
    """The waits, from each that waits to those in its way."""

    def __init__(self, waits: DirectWaits) -> None:
        self.waits = waits

    def ahead(self, node: Node) -> Iterator[tuple[Node, str]]:
        """What it waits for directly, and by which lock; empty: by none."""
        if isinstance(node, Gate):
            yield from ((member, "") for member in self.opened_by(node))
            return
        yield from ((each.holder, each.lock) for each in self.waits.locks.get(node, ()))
        if not isinstance(node, str):
            yield from ((target, "") for target in sorted(self.waits.targets.get(node, ())))
            yield from ((gate, "") for gate in self.waits.gates_of(node))

    def ahead_count(self, node: Node) -> int:
        """How much `ahead` gives."""
        if isinstance(node, Gate):
            return len(self.opened_by(node))
        count = len(self.waits.locks.get(node, ()))
        if isinstance(node, str):
            return count
        return count + len(self.waits.targets.get(node, ())) + len(self.waits.gates_of(node))

    def opened_by(self, gate: Gate) -> tuple[JobId, ...]:
        """The jobs for which a gate waits; none: several may open it, or a user."""
        going_on = tuple(islice((each for each in gate.members if each not in self.waits.locks), 2))
        return gate.members if not going_on else going_on if len(going_on) == 1 else ()


class _Ranking:
    def __init__(self, waits: DirectWaits, steps: int) -> None:
        self._waits = waits
        self._chains = Chains(waits)
        self._steps = steps
        # holder -> those who wait for one of its locks
        self._lock_waiters: dict[Node, dict[LockOwner, None]] = defaultdict(dict)
        for waiter, locks in waits.locks.items():
            for each in locks:
                self._lock_waiters[each.holder][waiter] = None
        # job -> gates that wait for it
        self._gates_behind: dict[Node, list[Gate]] = defaultdict(list)
        for gate in waits.gates:
            for member in self._chains.opened_by(gate):
                self._gates_behind[member].append(gate)
        # jobs that others wait for, and that wait for no job: those at no gate, and by gate
        self._awaited: list[JobId] = []
        self._at_gates: dict[Gate, list[JobId]] = defaultdict(list)
        # whether there are others, which are not looked at
        self._has_more = False

    def best(self, most: int) -> Ranked:
        self._read_awaited()
        found = [self._behind(root) for root in self._holders()]
        found += [self._behind(gate) for gate in self._waits.gates if gate.held and not self._chains.opened_by(gate)]
        found += self._rings(found)
        known = {behind.root for behind in found}
        found = self._top(found, most)
        for root in self._awaited:
            if self._steps <= 0:
                break
            if root not in known:
                found.append(self._behind(root))
                if len(found) > 2 * most:
                    found = self._top(found, most)
        told = [self._told(each) for each in self._top(found, most)]
        told.sort(key=lambda each: (each.kind is not BlockerKind.RING, -each.behind, _since(each.longest)))
        return Ranked(tuple(told), self._has_more or self._steps <= 0)

    def _top(self, found: Iterable[_Behind], most: int) -> list[_Behind]:
        worth_telling = (each for each in found if each.count or each.ring)
        return nsmallest(most, worth_telling, key=lambda each: (not each.ring, -each.count))

    def _read_awaited(self) -> None:
        """Those with the most direct dependents come first; as many as there are steps are looked at."""
        waits = self._waits
        free = waits.dependents.keys() - waits.targets.keys() - waits.locks.keys()
        # two fast sorts instead of one by pairs
        roots = sorted(sorted(free), key=lambda each: len(waits.dependents[each]), reverse=True)
        self._has_more = len(roots) > self._steps
        for job_id in roots[: self._steps]:
            gates = waits.gates_of(job_id)
            for gate in gates:
                self._at_gates[gate].append(job_id)
            if not gates:
                self._awaited.append(job_id)

    def _holders(self) -> list[Node]:
        """The roots that hold locks, or the last places of a gate."""
        nodes = dict.fromkeys((*self._lock_waiters, *self._gates_behind))
        return [node for node in nodes if node not in self._waits.locks]

    def _behind(self, root: Node, ring: tuple[LockOwner, ...] = ()) -> _Behind:
        behind = _Behind(root, ring=ring)
        heads: set[Node] = set(ring) or {root}
        if isinstance(root, Gate):
            behind.gates[root] = None
            heads = set(self._at_gates.get(root, ()))
        while heads:
            heads = self._step_back(heads, behind)
        behind.jobs.difference_update(each for each in ring if not isinstance(each, str))
        is_unsure = len(behind.gates) > 1 or (self._has_more and bool(behind.gates))
        behind.is_at_least = behind.is_at_least or is_unsure
        return behind

    def _step_back(self, heads: set[Node], behind: _Behind) -> set[Node]:
        """Take in all that wait directly for one of the heads; return those that were not known."""
        maps = (self._waits.dependents, self._lock_waiters, self._gates_behind)
        awaited: set[Node] = set().union(*(each.keys() & heads for each in maps))
        come: set[JobId] = set()
        others: set[str] = set()
        at_gates: set[JobId] = set()
        for node in awaited:
            dependents = self._waits.dependents.get(node, ()) if isinstance(node, int) else ()
            self._steps -= 1 + len(dependents) // _TAKEN
            come.update(dependents)
            for waiter in self._lock_waiters.get(node, ()):
                if isinstance(waiter, str):
                    others.add(waiter)
                else:
                    come.add(waiter)
            for gate in self._gates_behind.get(node, ()):
                if gate not in behind.gates:
                    behind.gates[gate] = None
                    at_gates.update(self._at_gates.get(gate, ()))
            if self._steps < 0:
                behind.is_at_least = True
                break
        come -= behind.jobs
        others -= behind.others
        behind.jobs |= come
        behind.others |= others
        return {*come, *others, *at_gates} if self._steps >= 0 else set()

    def _rings(self, found: Iterable[_Behind]) -> Iterator[_Behind]:
        """The rings in which all those wait for locks that are behind no root."""
        reached: set[LockOwner] = set()
        for behind in found:
            reached |= behind.jobs
            reached |= behind.others
        left = dict.fromkeys(each for each in self._waits.locks if each not in reached)
        while left and self._steps > 0:
            ring = self._ring(next(iter(left)))
            behind = self._behind(ring[0], ring)
            yield behind
            for owner in (*ring, *(behind.jobs & left.keys()), *behind.others):
                left.pop(owner, None)

    def _ring(self, start: LockOwner) -> tuple[LockOwner, ...]:
        """The ring to which the waits of this one lead."""
        path: dict[LockOwner, None] = {}
        owner = start
        while owner not in path:
            path[owner] = None
            # none of them leads to a root, so each waits, too
            owner = self._waits.locks[owner][0].holder
        passed = list(path)
        return tuple(passed[passed.index(owner) :])

    def _told(self, behind: _Behind) -> Blocker:
        root = behind.root
        kind, name = named(root)
        gate = root if isinstance(root, Gate) else None
        of_ring = tuple(sorted(each for each in behind.ring if not isinstance(each, str)))
        members = of_ring if gate is None else gate.members
        return Blocker(
            BlockerKind.RING if behind.ring else kind,
            name,
            members[:NAMED],
            len(behind.ring) if gate is None else gate.used,
            None if gate is None else gate.limit,
            self._direct(root),
            behind.count,
            behind.is_at_least,
            self._longest(behind),
        )

    def _direct(self, root: Node) -> int:
        if isinstance(root, Gate):
            return root.held
        dependents = () if isinstance(root, str) else self._waits.dependents.get(root, ())
        at_gates = (gate.held for gate in self._gates_behind.get(root, ()))
        return len(dependents) + len(self._lock_waiters.get(root, ())) + sum(at_gates)

    def _longest(self, behind: _Behind) -> LongWait | None:
        """The job that has waited longest; of those without a process the first one is it, as ids grow."""
        jobs, since = behind.jobs, self._waits.since
        candidates = [gate.first for gate in behind.gates if gate.first is not None]
        candidates += [each for each in self._waits.locks if not isinstance(each, str) and each in jobs]
        candidates += [min(jobs)] if jobs else []
        if not candidates:
            return None
        job_id = min(candidates, key=lambda each: (inf if (at := since(each)) is None else at, each))
        steps = _way(self._chains, job_id, behind.root, lambda node: self._is_between(node, behind))
        return _long_wait(self._waits, job_id, steps)

    def _is_between(self, node: Node, behind: _Behind) -> bool:
        """Whether the way to the root may lead over it."""
        if node == behind.root:
            return True
        if isinstance(node, Gate):
            return node in behind.gates
        if isinstance(node, str):
            return node in behind.others
        return node in behind.jobs or node in behind.ring or self._is_at(node, behind.gates)

    def _is_at(self, job_id: JobId, gates: Collection[Gate]) -> bool:
        return any(gate in gates for gate in self._waits.gates_of(job_id))


def _way(
    chains: Chains, start: JobId, end: Node | None = None, may_pass: Callable[[Node], bool] = lambda _: True
) -> tuple[WayStep, ...]:
    """The shortest way from a job to this end; None: to the first root. Of a longer one only the first steps are known,
    and the end."""
    came_from: dict[Node, tuple[Node, str]] = {}
    left: deque[Node] = deque([start])
    node: Node = start
    while left and len(came_from) < _MOST_SEEN:
        node = left.popleft()
        ahead = list(islice(chains.ahead(node), _MOST_SEEN))
        if node == end or (end is None and not ahead):
            return _steps(came_from, start, node)
        for other, lock in ahead:
            if other != start and other not in came_from and may_pass(other):
                came_from[other] = node, lock
                left.append(other)
    if end is None and not left:
        return _into_ring(chains, start)
    steps = _steps(came_from, start, node)
    return steps if end is None else (*steps, WayStep(*named(end)))


def _into_ring(chains: Chains, start: JobId) -> tuple[WayStep, ...]:
    """The way of a job whose waits lead to no root, until it comes back to where it was."""
    passed: dict[Node, None] = {}
    steps: list[WayStep] = []
    node: Node = start
    while node not in passed:
        passed[node] = None
        node, lock = next(chains.ahead(node))
        steps.append(WayStep(*named(node), lock))
    return tuple(steps)


def _steps(came_from: Mapping[Node, tuple[Node, str]], start: Node, end: Node) -> tuple[WayStep, ...]:
    found: list[WayStep] = []
    node = end
    while node != start:
        kind_and_name = named(node)
        node, lock = came_from[node]
        found.append(WayStep(*kind_and_name, lock))
    return tuple(reversed(found))


def _long_wait(waits: DirectWaits, job_id: JobId, steps: tuple[WayStep, ...]) -> LongWait:
    left_out = max(0, len(steps) - _FIRST_STEPS - _LAST_STEPS)
    told = (*steps[:_FIRST_STEPS], *steps[_FIRST_STEPS + left_out :])
    return LongWait(job_id, waits.since(job_id), told, left_out)


def named(node: Node) -> tuple[BlockerKind, str]:
    """What a node is, and its name, as clients are told."""
    if isinstance(node, Gate):
        return node.kind, node.name
    return (BlockerKind.OWNER, node) if isinstance(node, str) else (BlockerKind.JOB, str(node))


def _since(wait: LongWait | None) -> float:
    return inf if wait is None or wait.since is None else wait.since


# Who waits for whom in the queue.


# waits for locks that are looked at: a pair of a job and a holder of one of its locks counts as one
MOST_LOCK_WAITS: Final = 20_000


def lock_waits(status: LocksStatus) -> dict[LockOwner, tuple[HeldLock, ...]]:
    """The owners that wait for locks, and who holds these, in lock order.

    One that only waits for its turn, as nobody holds its locks, is left out. Cost: linear in locks and in what is
    returned, which has at most `MOST_LOCK_WAITS` holders.
    """
    found: dict[LockOwner, dict[HeldLock, None]] = {}
    for waiter, held in islice(_held_locks(status), MOST_LOCK_WAITS):
        found.setdefault(waiter, {})[held] = None
    return {waiter: tuple(held) for waiter, held in found.items()}


_Holders = Sequence[tuple[Owner, LockMode]]


def _held_locks(status: LocksStatus) -> Iterator[tuple[LockOwner, HeldLock]]:
    holders: dict[Lock, _Holders] = dict(status.held)
    members: dict[Lock, list[tuple[Owner, LockMode]]] = defaultdict(list)
    for lock, owners in status.held:
        if lock.group is not None:
            members[lock.group] += owners
    for pending in status.pending:
        asked = [(each.lock, each.mode) for each in pending.requests if each.mode is not None]
        for lock, mode in sorted(asked, key=lambda each: each[0].place):
            above = holders.get(lock.group, ()) if lock.group is not None else ()
            for owner, held_mode in (*holders.get(lock, ()), *members.get(lock, ()), *above):
                if owner != pending.owner and mode.excludes(held_mode):
                    yield _named_owner(pending.owner), HeldLock(str(lock), _named_owner(owner))


def _named_owner(owner: Owner) -> LockOwner:
    return JobId(owner.ident) if isinstance(owner.ident, int) else owner.ident


def waits_of(
    queue: JobQueue,
    locks: Mapping[LockOwner, Sequence[HeldLock]],
    since: Callable[[JobId], float | None],
) -> DirectWaits:
    """The waits of all jobs of the queue.

    Args: locks: what owners wait for.
    Cost: linear in the limits that are full, the resources, and the classes of the jobs that these hold back.
    """
    queue.ready.settle_units()
    gates = _Gates(queue)
    return DirectWaits(queue.dependents, queue.targets, locks, gates.all, gates.of, since)


class _Gates:
    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        full = (limit for limit in queue.limit_usage.full() if queue.ready.subject_to(limit))
        self._limits = {limit: self._limit(limit) for limit in full}
        self._units = {key: self._resource(key) for key in queue.units.wanted() if queue.units.waiting(key)}
        self._rules = {uuid: Gate(BlockerKind.PAUSE, uuid, *held) for uuid, held in queue.loads.paused().items()}
        self._slots = self._slot_gate()

    @property
    def all(self) -> tuple[Gate, ...]:
        slots = () if self._slots is None else (self._slots,)
        return (*self._limits.values(), *self._units.values(), *self._rules.values(), *slots)

    def of(self, job_id: JobId) -> tuple[Gate, ...]:
        entry = self._queue.entry(job_id)
        if entry is None or entry.phase is not Phase.READY:
            return ()
        rule = entry.ruling.rule
        paused = [self._rules.get(rule.uuid)] if rule is not None and entry.ruling.is_pause else []
        held = tuple(each for each in (*paused, *map(self._limits.get, entry.limits)) if each is not None)
        return held or self._short_of(entry) or (() if self._slots is None else (self._slots,))

    def _short_of(self, entry: Entry) -> tuple[Gate, ...]:
        wants = entry.admission.wants
        short = (want.name for want in wants if self._queue.ready.is_short(entry.job.job_id, want))
        return tuple(self._units[name] for name in short if name in self._units)

    def _limit(self, limit: Limit) -> Gate:
        ready, usage = self._queue.ready, self._queue.limit_usage
        members = tuple(sorted(usage.members(limit)))
        held, first = ready.subject_to(limit), ready.first_subject_to(limit)
        return Gate(_kind_of(limit), limit.name, held, first, members, len(members), limit.count)

    def _resource(self, key: str) -> Gate:
        units = self._queue.units
        stock = units.stock
        first = units.first_waiting(key)
        members = tuple(sorted(stock.users(key)))
        return Gate(BlockerKind.RESOURCE, key, units.waiting(key), first, members, stock.used(key), stock.total(key))

    def _slot_gate(self) -> Gate | None:
        queue = self._queue
        if queue.free_slots() > 0 or not (held := queue.ready.open_count()):
            return None
        used, members = queue.slots - queue.free_slots(), tuple(sorted(queue.busy()))
        return Gate(BlockerKind.SLOTS, "", held, queue.ready.first_open(), members, used, queue.slots)


def _kind_of(limit: Limit) -> BlockerKind:
    if isinstance(limit, BucketLimit):
        return BlockerKind.BUCKET
    return BlockerKind.BATCH if isinstance(limit, BatchLimit) else BlockerKind.RULE
