"""The page of filter rules and buckets."""

from typing import Final

from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow, filter_rules, rule_loads
from daemons.rapid.page.views.boards import FilterPage
from daemons.rapid.page.views.things import bucket_lines, rule_lines
from protocol.rapid.events import Topic


async def read(asked: Asked, now: ClusterNow) -> FilterPage:
    rules, loads = await filter_rules(asked.daemons), await rule_loads(asked.daemons)
    return FilterPage(
        rule_lines(rules, loads),
        bucket_lines(loads),
        loads.bucket_count,
        may(asked, Right.FILTERS_WRITE),
        may(asked, Right.QUEUE_WRITE),
    )


BOARD: Final[Board[FilterPage]] = Board(
    "filters",
    "/ui/filters",
    (Right.FILTERS_READ,),
    "The page of filter rules and buckets.",
    ("health", "rules", "buckets"),
    read,
    lambda page, _: page,
    lambda _: "Filters",
    lambda _: Interest.of(Topic.FILTERS, Topic.REASONS, Topic.JOBS),
)
