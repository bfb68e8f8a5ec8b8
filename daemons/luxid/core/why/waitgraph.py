"""Who waits for whom around some jobs, as a graph of bounded size in which the reason is never left out.

Theory. Nodes and waits are those of `blockers`. What a graph is asked for first is why a job does not run, so each job
with which it begins brings the shortest way from it to a root, a node that waits for nothing, before anything else is
added. A way that is longer than there is room keeps its beginning and its end, and one edge stands for the steps
between. Where all chains lead into a ring, the way ends where it has come round. What room is left is filled with all
else that is ahead, nearest first, then with those behind and what they wait for, and then with the ended jobs that
the live ones depended on.

Every wait of a node that is no edge is counted at the node. So a node without edges to others, and without such a
count, is a root, and no other node looks like one.

Source: DESIGN section 6, "Explain".
"""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from common.ids import JobId
from daemons.luxid.core.why.blockers import Chains, DirectWaits, Gate, Node, named
from protocol.luxi.why import WaitEdge, WaitGraph, WaitNode

# nodes of the shortest way: its first and its last
LEAST: Final = 2


def walk(
    waits: DirectWaits,
    starts: Sequence[JobId],
    most_nodes: int,
    most_edges: int,
    steps: int,
    over: Callable[[JobId], Sequence[JobId]],
) -> WaitGraph:
    """The graph around these jobs.

    Args:
        most_nodes, most_edges: bounds of its size, the first at least `LEAST`; edges of ways are not counted.
        steps: nodes that are looked at for the ways; each further start needs a single one if others lead it there.
        over: the ended jobs on which a live job depended.
    Cost: linear in steps, in what the nodes wait for, and in the locks that are waited for.
    """
    walked = _Walk(waits, most_nodes, steps)
    for start in dict.fromkeys(starts):
        walked.add_way(start)
    walked.fill_ahead()
    walked.fill_behind()
    walked.fill_over(over)
    return walked.told(most_edges, over)


# in place of a number of skipped nodes: the holder has ended
_OVER: Final = -1


class _Step(NamedTuple):
    """A wait. Thousands are made and compared, which takes a tuple a third of the time of another class."""

    waiter: Node
    holder: Node
    lock: str
    # nodes that are left out between the two, or `_OVER`
    skipped: int = 0


class _Walk:
    def __init__(self, waits: DirectWaits, most: int, steps: int) -> None:
        self._chains = Chains(waits)
        self._waits = waits
        self._most = most
        self._steps = steps
        self._is_partial = False
        self._left_out = 0
        # nodes of which all that is ahead was added, as far as there was room: the first ones
        self._filled = 0
        # node -> its place
        self._nodes: dict[Node, int] = {}
        # those from which a way is in the graph
        self._grounded: set[Node] = set()
        self._ways: dict[_Step, None] = {}
        # ended jobs
        self._ended: set[JobId] = set()
        # holder -> those who wait for one of its locks
        self._lock_waiters: dict[Node, dict[Node, None]] = defaultdict(dict)
        for waiter, locks in waits.locks.items():
            for each in locks:
                self._lock_waiters[each.holder][waiter] = None
        # job -> gates that wait for it
        self._gates_behind: dict[Node, list[Node]] = defaultdict(list)
        for gate in waits.gates:
            for member in self._chains.opened_by(gate):
                self._gates_behind[member].append(gate)

    def _room(self) -> int:
        return self._most - len(self._nodes)

    # the ways

    def add_way(self, start: JobId) -> None:
        if start in self._grounded:
            return
        way = self._way(start) if self._room() > 0 else []
        fresh = len({start, *(step.holder for step in way)} - self._nodes.keys())
        if self._room() < min(fresh, LEAST):
            self._left_out += 1
            return
        if fresh > self._room():
            way = self._shortened(way)
        for node in (start, *(step.holder for step in way)):
            self._nodes.setdefault(node, len(self._nodes))
        self._grounded.update((start, *(step.waiter for step in way), *(step.holder for step in way)))
        self._ways.update(dict.fromkeys(way))

    def _way(self, start: Node) -> list[_Step]:
        """The shortest way to a root, or to a node from which one is known, or once around a ring."""
        if not self._chains.ahead_count(start):
            return []
        # node -> the one that waits for it, and for which lock
        came: dict[Node, tuple[Node, str]] = {}
        left: deque[Node] = deque([start])
        node = start
        while left and self._steps > 0:
            self._steps -= 1
            node = left.popleft()
            for other, lock in self._chains.ahead(node):
                if other == start or other in came:
                    continue
                came[other] = (node, lock)
                # looked at as soon as it is seen: it may be the first of many
                if other in self._grounded or not self._chains.ahead_count(other):
                    return _back(came, start, other)
                left.append(other)
        if not left:
            return self._around(start)
        self._is_partial = True
        return _back(came, start, node)

    def _around(self, start: Node) -> list[_Step]:
        steps: list[_Step] = []
        node, passed = start, {start}
        while True:
            other, lock = next(self._chains.ahead(node))
            steps.append(_Step(node, other, lock))
            if other in passed:
                return steps
            passed.add(other)
            node = other

    def _shortened(self, way: list[_Step]) -> list[_Step]:
        """The beginning and the end of a way for which there is no room; one step between them skips the rest."""
        # without its first node, and without the holder of the step that skips
        kept = max(self._room() - LEAST, 0)
        head = kept // 2 + kept % 2
        end = len(way) - (kept - head)
        middle = way[head:end]
        return [*way[:head], _Step(middle[0].waiter, middle[-1].holder, "", len(middle) - 1), *way[end:]]

    # the rest

    def fill_ahead(self) -> None:
        fresh = list(islice(self._nodes, self._filled, None))
        self._fill(fresh, self._ahead)
        self._filled = len(self._nodes)

    def fill_behind(self) -> None:
        self._fill(list(self._nodes), self._behind)
        self.fill_ahead()

    def _fill(self, nodes: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> None:
        """Args: following: those next to a node that are not in the graph, each once."""
        left = deque(nodes)
        while left and self._room() > 0:
            for other in islice(following(left.popleft()), self._room()):
                self._nodes[other] = len(self._nodes)
                left.append(other)

    def fill_over(self, over: Callable[[JobId], Sequence[JobId]]) -> None:
        for node in list(self._nodes):
            for other in over(node) if isinstance(node, int) else ():
                if other not in self._nodes and self._room() > 0:
                    self._nodes[other] = len(self._nodes)
                    self._ended.add(other)

    def _ahead(self, node: Node) -> Iterable[Node]:
        """What it waits for and is not in the graph."""
        if isinstance(node, Gate):
            return self._fresh(self._chains.opened_by(node))
        holders = (each.holder for each in self._waits.locks.get(node, ()))
        if isinstance(node, str):
            return self._fresh(holders)
        jobs = sorted(self._outside(self._waits.targets.get(node, ())))
        return self._fresh((*holders, *jobs, *self._waits.gates_of(node)))

    def _behind(self, node: Node) -> Iterable[Node]:
        """Those that wait for it directly and are not in the graph, as far as they are known; of a gate none are."""
        waiters = self._lock_waiters.get(node, ())
        if not isinstance(node, int):
            return self._fresh(waiters)
        jobs = sorted(self._outside(self._waits.dependents.get(node, ())))
        return self._fresh((*jobs, *self._gates_behind.get(node, ()), *waiters))

    def _outside(self, job_ids: Collection[JobId]) -> list[JobId]:
        """The jobs that are not in the graph: few of many, so only these are put into order."""
        return [each for each in job_ids if each not in self._nodes]

    def _fresh(self, nodes: Iterable[Node]) -> Iterable[Node]:
        return dict.fromkeys(each for each in nodes if each not in self._nodes)

    def _behind_count(self, node: Node) -> int:
        """How many different ones `_behind` gives."""
        dependents = self._waits.dependents.get(node, ()) if isinstance(node, int) else ()
        others = [each for each in self._lock_waiters.get(node, ()) if each not in dependents]
        return len(dependents) + len(others) + len(self._gates_behind.get(node, ()))

    # what is told

    def told(self, most_edges: int, over: Callable[[JobId], Sequence[JobId]]) -> WaitGraph:
        edges = dict(self._ways)
        counts: dict[Node, int] = defaultdict(int)
        for step in edges:
            counts[step.waiter] += 1
        room = most_edges
        # waits of each node that are no edges: for others, and for ended jobs
        more: list[tuple[int, int]] = []
        for node in self._nodes:
            if node in self._ended:
                more.append((0, 0))
                continue
            for step in islice(self._steps_from(node, edges), room):
                room -= 1
                edges[step] = None
                counts[node] += 1
            ended = over(node) if isinstance(node, int) else ()
            shown = [each for each in ended if each in self._ended][:room]
            room -= len(shown)
            edges.update(dict.fromkeys(_Step(node, each, "", _OVER) for each in shown))
            more.append((self._chains.ahead_count(node) - counts[node], len(ended) - len(shown)))
        behind = self._more_behind(edges)
        return WaitGraph(
            tuple(map(self._node, self._nodes, more, behind)),
            tuple(map(self._edge, edges)),
            self._left_out,
            self._room() <= 0,
            self._is_partial,
        )

    def _steps_from(self, node: Node, edges: Container[_Step]) -> Iterator[_Step]:
        """Its waits for other nodes of the graph that are no edges yet; none are looked at before they are wanted."""
        steps = (_Step(node, other, lock) for other, lock in self._chains.ahead(node) if other in self._nodes)
        return (step for step in steps if step not in edges)

    @staticmethod
    def _node(node: Node, more: tuple[int, int], behind: int) -> WaitNode:
        used, limit = (node.used, node.limit) if isinstance(node, Gate) else (0, None)
        ahead, ended = more
        return WaitNode(*named(node), used, limit, ahead, behind, ended)

    def _edge(self, step: _Step) -> WaitEdge:
        waiter, holder = self._nodes[step.waiter], self._nodes[step.holder]
        return WaitEdge(waiter, holder, step.lock, max(step.skipped, 0), step.skipped == _OVER)

    def _more_behind(self, edges: Iterable[_Step]) -> Iterator[int]:
        shown: dict[Node, set[Node]] = defaultdict(set)
        # steps that stand for a wait for this node
        skipping: dict[Node, int] = defaultdict(int)
        for step in edges:
            if step.skipped > 0:
                skipping[step.holder] += 1
            else:
                shown[step.holder].add(step.waiter)
        for node in self._nodes:
            if isinstance(node, Gate):
                yield max(0, node.held - len(shown[node]))
            elif node in self._ended:
                yield 0
            else:
                yield self._behind_count(node) - len(shown[node]) - skipping[node]


def _back(came: Mapping[Node, tuple[Node, str]], start: Node, end: Node) -> list[_Step]:
    steps: list[_Step] = []
    node = end
    while node != start:
        waiter, lock = came[node]
        steps.append(_Step(waiter, node, lock))
        node = waiter
    return steps[::-1]
