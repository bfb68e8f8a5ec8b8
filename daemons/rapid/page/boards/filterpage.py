"""The page of filter rules and buckets."""

from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.queue.ruleloads import RuleLoads
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.reading import ClusterNow, filter_rules, rule_loads
from daemons.rapid.page.views.boards import FilterPage
from daemons.rapid.page.views.things import bucket_lines, rule_lines
from protocol.rapid.events import Topic


@attrs.frozen
class FilterPageFacts:
    rules: tuple[FilterRule, ...]
    loads: RuleLoads
    may_write: bool
    may_drain: bool


BOARD: Final[Board[FilterPageFacts]] = Board(
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


async def read(asked: Asked, now: ClusterNow) -> FilterPageFacts:
    rules, loads = await filter_rules(asked.daemons), await rule_loads(asked.daemons)
    return FilterPageFacts(rules, loads, may(asked, Right.FILTERS_WRITE), may(asked, Right.QUEUE_WRITE))


def view(facts: FilterPageFacts, now: float) -> FilterPage:
    return FilterPage(
        rule_lines(facts.rules, facts.loads),
        bucket_lines(facts.loads),
        facts.loads.bucket_count,
        facts.may_write,
        facts.may_drain,
    )
