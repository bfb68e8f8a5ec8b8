"""The page of locks."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.queue.explanation import Reason
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.drawing import draw_graph
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow, chains, lock_rows
from daemons.rapid.page.views.boards import LockPage
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.things import lock_lines, waiting_jobs, waits
from protocol.luxi.queries import LockRow
from protocol.rapid.events import Topic

# rows of the table
ROWS: Final = 200


@attrs.frozen
class LockPageFacts:
    lock: str
    only_awaited: bool
    rows: tuple[LockRow, ...]
    count: int
    reasons: Mapping[int, Sequence[Reason] | None]


BOARD: Final[Board[LockPageFacts]] = Board(
    "locks",
    "/ui/locks",
    (Right.LOCKS_READ,),
    "The page of locks and of who waits for whom.",
    ("health", "graph", "locks"),
    lambda asked, now: read(asked, now),
    lambda facts, now: view(facts, now),
    lambda _: "Locks",
    lambda _: Interest.of(Topic.LOCKS, Topic.REASONS),
)


async def read(asked: Asked, now: ClusterNow) -> LockPageFacts:
    lock = asked.http.query_params.get("lock", "").strip()
    only_awaited = "awaited" in asked.http.query_params
    rows = await lock_rows(asked.daemons)
    chosen = [row for row in rows if _is_wanted(row, lock) and (row.pending or not only_awaited)]
    shown = tuple(chosen[:ROWS])
    return LockPageFacts(lock, only_awaited, shown, len(rows), await chains(asked.daemons, waiting_jobs(shown)))


def _is_wanted(row: LockRow, text: str) -> bool:
    owners = (*row.owners, *(owner for _, owners in row.pending for owner in owners))
    return text in row.name or text in owners


def view(facts: LockPageFacts, now: float) -> LockPage:
    lines = lock_lines(facts.rows, facts.reasons, now)
    choices = (
        Choice("all", with_query("/ui/locks", [("lock", facts.lock)]), not facts.only_awaited),
        Choice("awaited", with_query("/ui/locks", [("lock", facts.lock), ("awaited", "yes")]), facts.only_awaited),
    )
    return LockPage(facts.lock, choices, lines, facts.count, draw_graph(waits(facts.reasons)))
