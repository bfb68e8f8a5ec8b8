"""The graph of waits as it is drawn: what is alike is folded into one box; places of boxes and arrows.

Theory. A node is a job, another owner of locks, or a gate; a wait leads from a waiter to what it waits for. Nodes that
stand alike are folded into one box, which counts their states and is unfolded by a link. There are three kinds of them:

* in a *chain* each waits only for the next, and only the one before waits for it; their names have the same shape, that
  is, differ only in digits. A root is never part of one, as it is the reason of all the others;
* *peers* have the same shape, and what they wait for, and what waits for them, is alike in turn. Ended ones are counted
  among the live ones for which the same jobs waited;
* *twins* wait for the very same boxes, the very same boxes wait for them, and their names begin alike; many of them are
  folded whatever their names are.

The order is chains, peers, twins; each sees the boxes of the one before. A fold of peers cannot make a ring: it joins
only nodes of one class of "what waits for it is alike", a class is never reached from itself, as each is made of
classes that were made before, and so neither is a part of it. Nodes at a wait that closes a ring are never folded.
Nothing is lost: each node is in one box, and a wait between two boxes is an arrow.

A box stands one column to the right of the farthest one that it waits for, so roots, which wait for nothing, stand on
the left, and all arrows but those that close a ring lead to the left. Boxes of a column stand in the order of what they
wait for.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

import attrs

# Nodes and waits.


@attrs.frozen
class GraphNode:
    # unique in a graph
    key: str
    # what it is called, as users know it
    name: str
    # state as users read it; "": it has none
    status: str = ""
    # what else is told of it
    notes: tuple[str, ...] = ()
    # None: it leads nowhere
    href: str | None = None
    # whether it waits for nothing
    is_root: bool = False
    # whether it has ended
    is_over: bool = False
    # what it is, for a box of many
    kind: str = "job"


@attrs.frozen
class WaitArrow:
    """`waiter` cannot go on before `holder`; or, if it is over, could not."""

    waiter: str
    holder: str
    # the lock that is waited for, or another word; "": the other's end
    what: str = ""
    is_over: bool = False


# Folding.


# nodes of the same shape, twins whose names begin alike, and twins of any names from which on they are folded
FOLDED_FROM: Final = 4
_TWINS_FROM: Final = 6
_ANY_FROM: Final = 12
# what unfolds all
ALL: Final = "*"
_NUMBER: Final = re.compile(r"[0-9]+")
# in front of the last word of a name
_LAST_WORD: Final = re.compile(r"(?<=[-_./: (])[^-_./: (]*$")


@attrs.frozen
class Group:
    """One box."""

    members: tuple[GraphNode, ...]
    # what members have in common, which is also what unfolds them
    shape: str = ""
    # whether they are of chains, in which each waits for the next
    is_chain: bool = False

    @property
    def is_fold(self) -> bool:
        return len(self.members) > 1

    @property
    def counts(self) -> Mapping[str, int]:
        """State -> number of members."""
        found: dict[str, int] = defaultdict(int)
        for member in self.members:
            found[member.status] += 1
        return found


@attrs.frozen
class GroupArrow:
    # places in the list of groups
    waiter: int
    holder: int
    # each once
    what: tuple[str, ...]
    is_over: bool
    # whether it closes a ring
    is_ring: bool


@attrs.frozen
class Folded:
    groups: tuple[Group, ...]
    arrows: tuple[GroupArrow, ...]


def shape_of(name: str) -> str:
    """The name with a star for each number."""
    return _NUMBER.sub(ALL, name)


def _beginning(name: str) -> str:
    """The name with a star for its last word."""
    return _NUMBER.sub(ALL, _LAST_WORD.sub(ALL, name))


def fold(
    nodes: Sequence[GraphNode],
    waits: Sequence[WaitArrow],
    kept: Collection[str] = (),
    unfolded: Collection[str] = (),
) -> Folded:
    """The boxes of these nodes, in their order.

    Args:
        kept: keys of nodes that stay alone.
        unfolded: shapes of those that are not to be folded, or `ALL`.
    Cost: linear in nodes and waits, but for a logarithm.
    """
    folding = _Folding(nodes, waits, kept, unfolded)
    folding.fold_chains()
    folding.fold_peers()
    folding.fold_twins(_beginning, _TWINS_FROM)
    folding.fold_twins(lambda _: ALL, _ANY_FROM)
    return folding.folded()


@attrs.frozen
class _Links:
    """Which boxes wait for which, without those that close a ring."""

    ahead: Sequence[set[int]]
    behind: Sequence[set[int]]

    @classmethod
    def of(cls, count: int, pairs: Iterable[tuple[int, int]]) -> Self:
        links = cls([set() for _ in range(count)], [set() for _ in range(count)])
        for waiter, holder in pairs:
            if waiter != holder:
                links.ahead[waiter].add(holder)
                links.behind[holder].add(waiter)
        return links


class _Folding:
    def __init__(
        self, nodes: Sequence[GraphNode], waits: Sequence[WaitArrow], kept: Collection[str], unfolded: Collection[str]
    ) -> None:
        places = {node.key: place for place, node in enumerate(nodes)}
        self._nodes = nodes
        self._pairs = [(places[each.waiter], places[each.holder]) for each in waits]
        self._waits = waits
        self._rings = _rings(len(nodes), self._pairs)
        self._unfolded = frozenset(unfolded)
        alone = {places[key] for key in kept if key in places}.union(*self._rings)
        self._may_fold = [
            place not in alone and not {ALL, shape_of(node.name), _beginning(node.name)} & self._unfolded
            for place, node in enumerate(nodes)
        ]
        # the boxes so far; their first member is the one that came first
        self._groups: list[tuple[int, ...]] = [(place,) for place in range(len(nodes))]
        self._shapes: dict[int, str] = {}
        self._chains: set[int] = set()

    def _links(self) -> _Links:
        box = self._boxes()
        return _Links.of(
            len(self._groups),
            ((box[waiter], box[holder]) for waiter, holder in self._pairs if (waiter, holder) not in self._rings),
        )

    def _boxes(self) -> list[int]:
        box = [0] * len(self._nodes)
        for at, members in enumerate(self._groups):
            for member in members:
                box[member] = at
        return box

    def _join(self, joined: Iterable[tuple[Sequence[int], str]], *, is_chain: bool = False) -> None:
        """Make one box of several. Args: joined: places of boxes, and what they have in common."""
        gone: set[int] = set()
        for boxes, shape in joined:
            members = tuple(member for at in boxes for member in self._groups[at])
            has_chains = is_chain or any(self._groups[at][0] in self._chains for at in boxes)
            self._groups[boxes[0]] = members if is_chain else tuple(sorted(members))
            self._shapes[self._groups[boxes[0]][0]] = shape
            if has_chains:
                self._chains.add(self._groups[boxes[0]][0])
            gone.update(boxes[1:])
        self._groups = [members for at, members in enumerate(self._groups) if at not in gone]

    # chains

    def fold_chains(self) -> None:
        links = self._links()
        following = {}
        for place, ahead in enumerate(links.ahead):
            if len(ahead) == 1 and self._may_chain(place):
                (other,) = ahead
                if (
                    len(links.behind[other]) == 1
                    and self._may_chain(other)
                    and self._shape(place) == self._shape(other)
                ):
                    following[place] = other
        firsts = following.keys() - set(following.values())
        chains = [list(_along(first, following)) for first in sorted(firsts)]
        self._join(((each, self._shape(each[0])) for each in chains if len(each) >= FOLDED_FROM), is_chain=True)

    def _may_chain(self, place: int) -> bool:
        node = self._nodes[place]
        return self._may_fold[place] and not node.is_root and not node.is_over

    def _shape(self, place: int) -> str:
        return shape_of(self._nodes[place].name)

    # peers

    def fold_peers(self) -> None:
        links, order = self._links(), self._order()
        behind_classes = self._classes(reversed(order), links.behind, lambda at: self._kind(at))
        classes = self._classes(order, links.ahead, lambda at: (behind_classes[at], self._is_over(at)))
        live: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        ended: dict[int, list[int]] = defaultdict(list)
        for at in range(len(self._groups)):
            if self._is_over(at):
                ended[behind_classes[at]].append(at)
            else:
                live[behind_classes[at]][classes[at]].append(at)
        self._join(self._peers(live, ended))

    def _peers(
        self, live: Mapping[int, Mapping[int, list[int]]], ended: Mapping[int, list[int]]
    ) -> Iterator[tuple[Sequence[int], str]]:
        for of_class in {**live, **ended}:
            alike, over = list(live.get(of_class, {}).values()), ended.get(of_class, [])
            # with several kinds of live ones nobody knows to which the ended ones belong
            sets = [sorted(alike[0] + over)] if len(alike) == 1 and over else [*alike, over]
            yield from ((boxes, self._shape(self._groups[boxes[0]][0])) for boxes in sets if len(boxes) >= FOLDED_FROM)

    def _kind(self, at: int) -> Hashable:
        """What peers have in common by themselves; unique for one that is not folded."""
        first = self._groups[at][0]
        node = self._nodes[first]
        return (node.kind, self._shape(first), len(self._groups[at])) if self._may_fold[first] else at

    def _is_over(self, at: int) -> bool:
        return self._nodes[self._groups[at][0]].is_over

    def _order(self) -> list[int]:
        """The boxes, each after all that it waits for."""
        links = self._links()
        left = [len(ahead) for ahead in links.ahead]
        ready = [at for at, count in enumerate(left) if not count]
        for at in ready:
            for waiter in links.behind[at]:
                left[waiter] -= 1
                if not left[waiter]:
                    ready.append(waiter)
        return ready

    def _classes(
        self, order: Iterable[int], neighbours: Sequence[set[int]], kind: Callable[[int], Hashable]
    ) -> list[int]:
        """The class of each box: of the same kind, with neighbours of the same classes. Neighbours come first."""
        numbers: dict[Hashable, int] = {}
        classes = [0] * len(self._groups)
        for at in order:
            key = (kind(at), frozenset(classes[each] for each in neighbours[at]))
            classes[at] = numbers.setdefault(key, len(numbers))
        return classes

    # twins

    def fold_twins(self, common: Callable[[str], str], at_least: int) -> None:
        links = self._links()
        alike: dict[Hashable, list[int]] = defaultdict(list)
        for at, members in enumerate(self._groups):
            node = self._nodes[members[0]]
            if self._may_fold[members[0]] and members[0] not in self._chains:
                key = (frozenset(links.ahead[at]), frozenset(links.behind[at]), node.kind, common(node.name))
                alike[key].append(at)
        found = ((boxes, common(self._nodes[self._groups[boxes[0]][0]].name)) for boxes in alike.values())
        self._join(
            [
                (boxes, shape)
                for boxes, shape in found
                if len(boxes) > 1 and sum(len(self._groups[at]) for at in boxes) >= at_least
            ]
        )

    # what is made of it

    def folded(self) -> Folded:
        box = self._boxes()
        found: dict[tuple[int, int], list[WaitArrow]] = {}
        rings = set()
        for wait, (waiter, holder) in zip(self._waits, self._pairs, strict=True):
            pair = box[waiter], box[holder]
            if pair[0] != pair[1]:
                found.setdefault(pair, []).append(wait)
                if (waiter, holder) in self._rings:
                    rings.add(pair)
        arrows = (
            GroupArrow(*pair, tuple(dict.fromkeys(each.what for each in joined if each.what)),
                       all(each.is_over for each in joined), pair in rings)
            for pair, joined in found.items()
        )  # fmt: skip
        return Folded(tuple(map(self._group, self._groups)), tuple(arrows))

    def _group(self, members: Sequence[int]) -> Group:
        nodes = tuple(self._nodes[each] for each in members)
        return Group(nodes, self._shapes.get(members[0], ""), members[0] in self._chains) if nodes[1:] else Group(nodes)


def _along(first: int, following: Mapping[int, int]) -> Iterator[int]:
    yield first
    while first in following:
        first = following[first]
        yield first


def _rings(count: int, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The pairs without which there is no ring; without recursion, as chains may be long."""
    holders: list[list[int]] = [[] for _ in range(count)]
    for waiter, holder in pairs:
        holders[waiter].append(holder)
    done: set[int] = set()
    rings: set[tuple[int, int]] = set()
    for start in range(count):
        path = {start: iter(holders[start])} if start not in done else {}
        while path:
            owner, rest = next(reversed(path.items()))
            following = next((each for each in rest if each not in done), None)
            if following is None:
                path.popitem()
                done.add(owner)
            elif following in path:
                rings.add((owner, following))
            else:
                path[following] = iter(holders[following])
    return rings


# Places.


BOX_WIDTH: Final = 236
BOX_HEIGHT: Final = 62
_COLUMN: Final = 380
_ROW: Final = 80
_MARGIN: Final = 10
# of an arrow, from its waiter on; its text stands there
_STRAIGHT: Final = 96


@attrs.frozen
class Box:
    group: Group
    x: int
    y: int


@attrs.frozen
class Arrow:
    # places in the list of boxes
    waiter: int
    holder: int
    what: tuple[str, ...]
    # path of the line, for SVG
    path: str
    # place of its text
    x: int
    y: int
    is_over: bool
    is_ring: bool


@attrs.frozen
class DrawnGraph:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


def place(folded: Folded) -> DrawnGraph:
    """The place of each box and arrow. Cost: as `fold`."""
    count = len(folded.groups)
    links = _Links.of(count, ((each.waiter, each.holder) for each in folded.arrows if not each.is_ring))
    columns = _columns(links)
    rows = _rows(links, columns)
    boxes = tuple(
        Box(group, _MARGIN + columns[at] * _COLUMN, _MARGIN + rows[at] * _ROW) for at, group in enumerate(folded.groups)
    )
    arrows = tuple(_arrow(boxes, each) for each in folded.arrows)
    width = max((box.x + BOX_WIDTH for box in boxes), default=0) + _MARGIN
    # a ring's arrow leads below
    height = max((box.y + BOX_HEIGHT for box in boxes), default=0) + 2 * _MARGIN
    return DrawnGraph(boxes, arrows, width, height)


def _columns(links: _Links) -> list[int]:
    columns = [0] * len(links.ahead)
    left = [len(ahead) for ahead in links.ahead]
    ready = [at for at, count in enumerate(left) if not count]
    for at in ready:
        for waiter in links.behind[at]:
            columns[waiter] = max(columns[waiter], columns[at] + 1)
            left[waiter] -= 1
            if not left[waiter]:
                ready.append(waiter)
    return columns


def _rows(links: _Links, columns: Sequence[int]) -> list[int]:
    """The row of each box in its column: in the order of the mean row of what it waits for."""
    members: dict[int, list[int]] = defaultdict(list)
    for at, column in enumerate(columns):
        members[column].append(at)
    rows = [0] * len(columns)
    for column in sorted(members):
        order = sorted(members[column], key=lambda at: _mean([rows[each] for each in links.ahead[at]]))
        for row, at in enumerate(order):
            rows[at] = row
    return rows


def _mean(rows: Sequence[int]) -> float:
    return sum(rows) / len(rows) if rows else 0.0


def _arrow(boxes: Sequence[Box], arrow: GroupArrow) -> Arrow:
    waiter, holder = boxes[arrow.waiter], boxes[arrow.holder]
    if arrow.is_ring:
        # it leads to the right, under the boxes between
        x1, x2 = waiter.x + BOX_WIDTH // 2, holder.x + BOX_WIDTH // 2
        low = max(waiter.y, holder.y) + BOX_HEIGHT
        path = f"M{x1} {waiter.y + BOX_HEIGHT} C{x1} {low + 24} {x2} {low + 24} {x2} {holder.y + BOX_HEIGHT}"
        return Arrow(arrow.waiter, arrow.holder, arrow.what, path, (x1 + x2) // 2, low + 16, arrow.is_over, True)
    x1, y1 = waiter.x, waiter.y + BOX_HEIGHT // 2
    x2, y2 = holder.x + BOX_WIDTH, holder.y + BOX_HEIGHT // 2
    straight = x1 - _STRAIGHT if arrow.what else x1 - 12
    bend = (straight - x2) // 2
    path = f"M{x1} {y1} H{straight} C{straight - bend} {y1} {x2 + bend} {y2} {x2} {y2}"
    return Arrow(arrow.waiter, arrow.holder, arrow.what, path, x1 - 8, y1 - 6, arrow.is_over, False)
