"""Filter rules, and what they hold back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.queue.explanation import HeldByRule, LimitFull, Reason
from common.wire import structure
from daemons.rapid.calls import Daemons
from daemons.rapid.page.views.ruleview import RULE_FIELDS, BucketLine
from protocol.luxi.queries import QueryFilters

# newest unfinished jobs that are asked for what holds them back
LOOKED_AT: Final = 200


@attrs.frozen
class HeldBack:
    """What holds back the newest jobs that wait."""

    # uuid of a rule -> number of jobs
    by_rule: Mapping[str, int]
    buckets: tuple[BucketLine, ...]


async def filter_rules(daemons: Daemons) -> tuple[FilterRule, ...]:
    rows = await daemons.luxid(QueryFilters(None, RULE_FIELDS))
    return tuple(structure(dict(zip(RULE_FIELDS, row, strict=True)), FilterRule) for row in rows)


def held_back(reasons: Mapping[int, Sequence[Reason] | None]) -> HeldBack:
    """Count what is in the way of these jobs."""
    rules: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    full: dict[str, LimitFull] = {}
    for told in reasons.values():
        for reason in told or ():
            if isinstance(reason, HeldByRule):
                rules[reason.uuid] += 1
            elif isinstance(reason, LimitFull) and reason.is_bucket:
                waiting[reason.name] += 1
                full[reason.name] = reason
            elif isinstance(reason, LimitFull):
                rules[reason.name] += 1
    buckets = (BucketLine(name, each.running_count, each.limit, waiting[name]) for name, each in full.items())
    return HeldBack(rules, tuple(sorted(buckets, key=lambda bucket: bucket.name)))
