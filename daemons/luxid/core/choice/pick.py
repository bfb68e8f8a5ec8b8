"""Which of the ready jobs runs next, found without a look at the others.

Theory. The best job is the one with the smallest (priority, aged weight, age, id). To find it, the jobs are
kept in nested groups, such that within a group time and events never change the order:

    lane    jobs of one priority, one gate and equal needs: the scheduling class. All have the same static
            weight, so the one received first is never the heavier one: the order is (received tick, id).
    pool    the lanes of one gate and one cell
    cell    jobs of one priority, one shape of needs, and the same levels on which a name of theirs clashes with a
            running job's. From these alone follows the static weight: so a cell, too, is ordered by
            (received tick, id), whatever different names its jobs have.
    gate    jobs with the same limits and the same word of the filters. It is open while nobody pauses it
            and none of its limits is full. Jobs behind a closed gate are passed over: their pools show no head.

Each group knows the head of its own, and tells the group above when that changes. So a pick compares one head
for each cell of the best priority, with weights as they are at this moment; there are as many cells as there are shapes
of opcodes, however many jobs, names and limits. No tick of the clock has to be told.

A start or an end changes the number of jobs that take a name. Only where it crosses zero the classes that need this
name may begin or cease to clash on a level; their lanes then belong into another cell. They are moved when somebody
next asks for the best: a job takes and frees locks several times between two choices, its next one
often turns the last around, and a class that many gates divide has many lanes. A limit that becomes full or free
shuts or opens gates, each by showing or hiding a head in each of its pools, however many jobs are behind it.

Considered and rejected: one sorted list (each start would re-weigh all), a heap a class (with a name for each instance
there are as many classes as jobs), a queue for each tick (all jobs would move twice a minute).

Source: DESIGN section 6, "Selection", "Weights"; predictive-queue design; luxid.md 5.11.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from common.ids import JobId
from daemons.luxid.core.choice.footprints import Crossing, Footprints
from daemons.luxid.core.choice.gates import Gates
from daemons.luxid.core.choice.groups import Cell, Gate, GateKey, Key, Lane, Pool
from daemons.luxid.core.choice.lockclasses import LockClass, LockClasses
from daemons.luxid.core.choice.needs import Needs, Shape
from daemons.luxid.core.choice.ratelimit import Limit, Places
from daemons.luxid.core.choice.weights import WeightRules

# priority, aged weight, age and id: the smallest is started first
Place = tuple[int, float, Key]


class Picker:
    """The ready jobs, and the best of them."""

    def __init__(self, rules: WeightRules, footprints: Footprints, places: Places) -> None:
        self._rules = rules
        self._footprints = footprints
        self._classes = LockClasses(footprints)
        self._lanes: dict[JobId, Lane] = {}
        self._gates = Gates(places)
        self._cells: dict[int, dict[tuple[Shape, int], Cell]] = {}
        # classes whose lanes are in the cells of an earlier moment
        self._strayed: dict[LockClass, None] = {}
        self._touched = 0

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._lanes

    @property
    def touched(self) -> int:
        """Groups and jobs looked at so far."""
        return self._touched + self._gates.touched

    # what happened

    def add(self, job_id: JobId, received_tick: int, priority: int, needs: Needs, gate: GateKey) -> None:
        """The job, which is not here, is ready.

        Args:
            received_tick: never another one for the same job.
        """
        lane = self._lane(self._gates.find(gate), priority, self._classes.find(needs))
        self._enter_lane(lane, (received_tick, job_id))

    def remove(self, job_id: JobId) -> None:
        """The job is ready no longer."""
        self._leave_lane(self._lanes.pop(job_id))

    def regate(self, job_id: JobId, received_tick: int, gate: GateKey) -> None:
        """The job, which is here, stands behind this gate now; as `remove` and `add`, at half the price."""
        before = self._lanes[job_id]
        self._enter_lane(self._lane(self._gates.find(gate), before.priority, before.locks), (received_tick, job_id))
        self._leave_lane(before)

    def cross(self, crossings: Iterable[Crossing]) -> None:
        """Running jobs began or ceased to take these names."""
        for lock_class in self._classes.concerned(crossings):
            self._touched += 1
            if lock_class.clashes != lock_class.placed:
                self._strayed[lock_class] = None
            else:
                self._strayed.pop(lock_class, None)

    def shut(self, limits: Iterable[Limit]) -> None:
        """These limits are full now."""
        self._gates.shut(limits)

    def open(self, limits: Iterable[Limit]) -> None:
        """These limits have room now."""
        self._gates.open(limits)

    # what follows

    def best(self, now_tick: int) -> JobId | None:
        """The job to start next; None: there is none that may.

        Cost: linear in the cells, and in the lanes of classes that clash otherwise than when this was last asked; not
            in the jobs.
        """
        self._settle()
        for priority in sorted(self._cells):
            cells = self._cells[priority].values()
            self._touched += len(cells)
            heads = [(cell, head) for cell in cells if (head := cell.first()) is not None]
            if heads:
                factor = self._rules.factor
                return JobId(min((self._static(cell) * factor(head[0], now_tick), head) for cell, head in heads)[1][1])
        return None

    def ahead(self, place: Place, now_tick: int, named: int) -> tuple[int, tuple[JobId, ...]]:
        """How many ready jobs are started before one in this place of the order, and the first of them.

        Args:
            named: so many are named.
        Cost: linear in the classes, and in the jobs of those classes that reach before it; for explanations.
        """
        self._settle()
        count = 0
        heads: list[tuple[Place, int, Lane]] = []
        for number, lane in enumerate(self._open_lanes(place[0])):
            first = self._place(lane, lane.head, now_tick) if lane.head is not None else place
            if first < place:
                heads.append((first, number, lane))
                is_whole = lane.members == 1 or lane.priority < place[0]
                count += lane.members if is_whole else self._count_before(lane, place, now_tick)
        # the first jobs are all of the lanes with the first heads
        leaders = [lane for _, _, lane in nsmallest(named, heads)]
        places = (self._place(lane, key, now_tick) for lane in leaders for key in lane.living())
        return count, tuple(JobId(each[2][1]) for each in nsmallest(named, places) if each < place)

    def _count_before(self, lane: Lane, place: Place, now_tick: int) -> int:
        return sum(self._place(lane, key, now_tick) < place for key in lane.living())

    def _open_lanes(self, lowest: int) -> Iterator[Lane]:
        """Those of this priority and better ones."""
        for lock_class in self._classes:
            for lane in lock_class.lanes:
                if lane.priority <= lowest and not lane.gate.bars:
                    yield lane

    def _place(self, lane: Lane, key: Key, now_tick: int) -> Place:
        return lane.priority, self._static(lane.pool.cell) * self._rules.factor(key[0], now_tick), key

    def groups(self) -> int:
        """How many gates, cells and classes of needs there are, and how many of those have to be moved."""
        return len(self._gates) + sum(map(len, self._cells.values())) + len(self._classes) + len(self._strayed)

    def _static(self, cell: Cell) -> float:
        if cell.epoch != self._footprints.epoch:
            cell.epoch = self._footprints.epoch
            cell.weight = self._footprints.static_weight(cell.shape, cell.clashes)
        return cell.weight

    # groups come and go with their jobs

    def _lane(self, gate: Gate, priority: int, locks: LockClass) -> Lane:
        lane: Lane | None = locks.find_lane(gate, priority)
        if lane is None:
            pool = self._pool(gate, self._cell(priority, locks))
            lane = Lane(self._lanes, priority, gate, locks, pool)
            locks.add_lane(lane)
            pool.members += 1
        return lane

    def _enter_lane(self, lane: Lane, key: Key) -> None:
        self._lanes[JobId(key[1])] = lane
        lane.members += 1
        self._touched += 1
        lane.offer(key)
        lane.refresh()

    def _leave_lane(self, lane: Lane) -> None:
        """The job is there no longer."""
        lane.members -= 1
        self._touched += 1
        lane.refresh()
        if not lane.members:
            self._drop_lane(lane)

    def _drop_lane(self, lane: Lane) -> None:
        self._leave(lane.pool)
        lane.locks.drop_lane(lane)
        if not lane.locks.lanes:
            self._classes.drop(lane.locks)
            self._strayed.pop(lane.locks, None)
        if not lane.gate.pools:
            self._gates.drop(lane.gate)

    def _settle(self) -> None:
        """Let every lane be in the cell that its class's clashes mean."""
        for lock_class in self._strayed:
            lock_class.placed = lock_class.clashes
            for lane in lock_class.lanes:
                self._move(lane)
        self._strayed.clear()

    def _move(self, lane: Lane) -> None:
        self._touched += 1
        before, after = lane.pool, self._pool(lane.gate, self._cell(lane.priority, lane.locks))
        after.members += 1
        lane.enter(after)
        self._leave(before)

    def _leave(self, pool: Pool) -> None:
        """One lane less is in the pool."""
        pool.members -= 1
        pool.refresh()
        if not pool.members:
            cell = pool.cell
            del pool.gate.pools[cell]
            cell.members -= 1
            if not cell.members:
                self._drop_cell(cell)

    def _pool(self, gate: Gate, cell: Cell) -> Pool:
        pool = gate.pools.get(cell)
        if pool is None:
            pool = gate.pools[cell] = Pool(self._lanes, gate, cell)
            cell.members += 1
        return pool

    def _cell(self, priority: int, locks: LockClass) -> Cell:
        cells = self._cells.setdefault(priority, {})
        key = (locks.needs.shape, locks.placed)
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = Cell(self._lanes, priority, *key)
        return cell

    def _drop_cell(self, cell: Cell) -> None:
        cells = self._cells[cell.priority]
        del cells[cell.shape, cell.clashes]
        if not cells:
            del self._cells[cell.priority]
