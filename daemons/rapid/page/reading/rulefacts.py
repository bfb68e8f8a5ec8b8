"""Filter rules, and what they and the buckets do to the jobs."""

from common.objects.filter import FilterRule
from common.queue.filters.ruleloads import RuleLoads
from common.wire import structure
from daemons.rapid.calls import Daemons
from daemons.rapid.page.views.ruleview import RULE_FIELDS
from protocol.luxi.filters import ReadRuleLoads
from protocol.luxi.queries import QueryFilters


async def filter_rules(daemons: Daemons) -> tuple[FilterRule, ...]:
    rows = await daemons.luxid(QueryFilters(None, RULE_FIELDS))
    return tuple(structure(dict(zip(RULE_FIELDS, row, strict=True)), FilterRule) for row in rows)


async def rule_loads(daemons: Daemons) -> RuleLoads:
    return await daemons.luxid(ReadRuleLoads())
