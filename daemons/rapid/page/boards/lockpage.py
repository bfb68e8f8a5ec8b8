"""The page of locks."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.queue.explanation import Reason
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow, held_since, lock_rows, wait_graph
from daemons.rapid.page.views.boards import LockPage
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.graphview import MOST_BESIDE, NOTHING, GraphFacts, Shown, graph_view
from daemons.rapid.page.views.things import awaited_lines, is_dependency, lock_lines, waiting_jobs
from protocol.luxi.queries import LockRow
from protocol.rapid.events import Topic

# rows of the table
ROWS: Final = 200
# jobs whose end others wait for, that are shown
AWAITED: Final = 50


@attrs.frozen
class LockPageFacts:
    lock: str
    only_awaited: bool
    rows: tuple[LockRow, ...]
    # jobs whose end others wait for, and how many there are
    awaited: tuple[LockRow, ...]
    awaited_count: int
    # number of locks
    count: int
    reasons: Mapping[int, Sequence[Reason] | None]
    graph: GraphFacts


async def read(asked: Asked, now: ClusterNow) -> LockPageFacts:
    lock = asked.http.query_params.get("lock", "").strip()
    only_awaited = "awaited" in asked.http.query_params
    rows = await lock_rows(asked.daemons)
    chosen = [row for row in rows if _is_wanted(row, lock) and (row.pending or not only_awaited)]
    shown = tuple(row for row in chosen if not is_dependency(row))[:ROWS]
    awaited = [row for row in chosen if is_dependency(row)]
    waiting = waiting_jobs((*shown, *awaited[:AWAITED]))
    return LockPageFacts(
        lock,
        only_awaited,
        shown,
        tuple(awaited[:AWAITED]),
        len(awaited),
        sum(not is_dependency(row) for row in rows),
        await held_since(asked.daemons, shown),
        await wait_graph(asked.daemons, waiting, MOST_BESIDE) if waiting else NOTHING,
    )


def _is_wanted(row: LockRow, text: str) -> bool:
    owners = (*row.owners, *(owner for _, owners in row.pending for owner in owners))
    return text in row.name or text in owners


def view(facts: LockPageFacts, now: float) -> LockPage:
    lines = lock_lines(facts.rows, facts.reasons, now)
    choices = (
        Choice("all", with_query("/ui/locks", [("lock", facts.lock)]), not facts.only_awaited),
        Choice("awaited", with_query("/ui/locks", [("lock", facts.lock), ("awaited", "yes")]), facts.only_awaited),
    )
    return LockPage(
        facts.lock,
        choices,
        lines,
        facts.count,
        graph_view(facts.graph, Shown()),
        awaited_lines(facts.awaited),
        facts.awaited_count,
    )


BOARD: Final[Board[LockPageFacts]] = Board(
    "locks",
    "/ui/locks",
    (Right.LOCKS_READ,),
    "The page of locks and of who waits for whom.",
    ("health", "graph", "locks", "awaited"),
    read,
    view,
    lambda _: "Locks",
    lambda _: Interest.of(Topic.LOCKS, Topic.REASONS),
)
