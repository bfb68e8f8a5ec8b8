"""The graph of waits: who waits for whom, to the root of each chain.

Theory. Owners are boxes; an arrow leads from each that waits to each in its way. A box stands one column to the right
of the farthest one that it waits for, so roots, which wait for nobody, stand on the left, and all arrows lead to the
left. Boxes of a ring wait for each other; the arrow that closes it is told apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

BOX_WIDTH: Final = 150
BOX_HEIGHT: Final = 40
_COLUMN: Final = 330
_ROW: Final = 62
_MARGIN: Final = 8
# of an arrow, from its waiter on
_STRAIGHT: Final = 110


@attrs.frozen
class Wait:
    """`waiter` cannot go on before `holder`."""

    waiter: str
    holder: str
    # the lock, or the end that is waited for
    what: str


@attrs.frozen
class Box:
    owner: str
    x: int
    y: int
    # whether it waits for nobody
    is_root: bool


@attrs.frozen
class Arrow:
    waiter: str
    holder: str
    what: str
    # path of the line, for SVG
    path: str
    # place of its text
    x: int
    y: int
    # whether it closes a ring
    is_ring: bool


@attrs.frozen
class LockGraph:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


def draw_graph(waits: Iterable[Wait]) -> LockGraph:
    """Draw these waits; several of one pair are joined."""
    joined: dict[tuple[str, str], list[str]] = {}
    for wait in waits:
        names = joined.setdefault((wait.waiter, wait.holder), [])
        if wait.what not in names:
            names.append(wait.what)
    column, rings = _columns(joined)
    boxes = _boxes(column, {waiter for waiter, _ in joined})
    arrows = tuple(
        _arrow(boxes[waiter], boxes[holder], _label(names), is_ring=(waiter, holder) in rings)
        for (waiter, holder), names in joined.items()
    )
    width = max((box.x + BOX_WIDTH for box in boxes.values()), default=0) + _MARGIN
    height = max((box.y + BOX_HEIGHT for box in boxes.values()), default=0) + _MARGIN
    return LockGraph(tuple(boxes.values()), arrows, width, height)


def _label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _columns(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """The column of each owner, and the pairs that close a ring."""
    holders: dict[str, list[str]] = {}
    for waiter, holder in pairs:
        holders.setdefault(waiter, []).append(holder)
        holders.setdefault(holder, [])
    column: dict[str, int] = {}
    rings: set[tuple[str, str]] = set()
    for start in holders:
        _walk(start, holders, column, rings)
    return column, rings


def _walk(
    start: str, holders: Mapping[str, Sequence[str]], column: dict[str, int], rings: set[tuple[str, str]]
) -> None:
    """Visit what `start` waits for, depth first; without recursion, as chains may be long."""
    if start in column:
        return
    path = {start: iter(holders[start])}
    while path:
        owner, rest = next(reversed(path.items()))
        holder = next((each for each in rest if each not in column), None)
        if holder is None:
            path.popitem()
            done = [column[each] for each in holders[owner] if each in column]
            column[owner] = 1 + max(done, default=-1)
        elif holder in path:
            rings.add((owner, holder))
        else:
            path[holder] = iter(holders[holder])


def _boxes(column: Mapping[str, int], waiters: set[str]) -> dict[str, Box]:
    rows: dict[int, int] = {}
    boxes = {}
    for owner, place in column.items():
        row = rows.get(place, 0)
        rows[place] = row + 1
        x, y = _MARGIN + place * _COLUMN, _MARGIN + row * _ROW
        boxes[owner] = Box(owner, x, y, is_root=owner not in waiters)
    return boxes


def _arrow(waiter: Box, holder: Box, what: str, *, is_ring: bool) -> Arrow:
    x1, y1 = waiter.x, waiter.y + BOX_HEIGHT // 2
    x2, y2 = holder.x + BOX_WIDTH, holder.y + BOX_HEIGHT // 2
    if is_ring:
        # it leads to the right, under the boxes between
        x1, x2, low = waiter.x + BOX_WIDTH // 2, holder.x + BOX_WIDTH // 2, max(waiter.y, holder.y) + BOX_HEIGHT
        path = f"M{x1} {waiter.y + BOX_HEIGHT} C{x1} {low + 24} {x2} {low + 24} {x2} {holder.y + BOX_HEIGHT}"
        return Arrow(waiter.owner, holder.owner, what, path, (x1 + x2) // 2, low + 17, is_ring)
    # the text stands on the straight part
    straight = x1 - _STRAIGHT
    bend = (straight - x2) // 2
    path = f"M{x1} {y1} H{straight} C{straight - bend} {y1} {x2 + bend} {y2} {x2} {y2}"
    return Arrow(waiter.owner, holder.owner, what, path, x1 - 10, y1 - 6, is_ring)
