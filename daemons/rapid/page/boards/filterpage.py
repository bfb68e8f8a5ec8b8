"""The page of filter rules and buckets."""

from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.query.qlang import Expression
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.news import Interest
from daemons.rapid.page.reading.clusternow import ClusterNow
from daemons.rapid.page.reading.jobfacts import UNENDED, page_of_jobs, reasons_of
from daemons.rapid.page.reading.rulefacts import LOOKED_AT, HeldBack, filter_rules, held_back
from daemons.rapid.page.views.boards import FilterPage
from daemons.rapid.page.views.ruleview import rule_lines
from protocol.rapid.events import Topic


@attrs.frozen
class Facts:
    rules: tuple[FilterRule, ...]
    held: HeldBack
    may_write: bool
    may_drain: bool


BOARD: Final[Board[Facts]] = Board(
    "filters",
    "/ui/filters",
    (Right.FILTERS_READ,),
    "The page of filter rules and buckets.",
    ("health", "rules", "buckets"),
    lambda asked, now: read(asked, now),
    lambda facts, now: view(facts, now),
    lambda _: "Filters",
    lambda _: Interest.of(Topic.FILTERS, Topic.REASONS, Topic.JOBS),
)


async def read(asked: Asked, now: ClusterNow) -> Facts:
    rules = await filter_rules(asked.daemons)
    rows = await page_of_jobs(asked.daemons, ("id", "status"), Expression.from_wire(UNENDED), limit=LOOKED_AT)
    waiting = [row["id"] for row in rows if row["status"] not in ("running", "canceling")]
    held = held_back(await reasons_of(asked.daemons, waiting))
    return Facts(rules, held, may(asked, Right.FILTERS_WRITE), may(asked, Right.QUEUE_WRITE))


def view(facts: Facts, now: float) -> FilterPage:
    return FilterPage(
        rule_lines(facts.rules, facts.held.by_rule), facts.held.buckets, facts.may_write, facts.may_drain, LOOKED_AT
    )
