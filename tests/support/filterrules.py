"""Filter rules of tests, from the JSON values of their parts."""

from typing import Any

from common.objects.filter import FilterRule
from common.wire import structure


def filter_rule(
    *,
    uuid: str = "u",
    watermark: int = 0,
    priority: int = 0,
    predicates: Any = (),
    action: Any = "PAUSE",
    reason_trail: Any = (),
) -> FilterRule:
    """As a program that keeps or sends the rule would have it read."""
    parts = {
        "uuid": uuid,
        "watermark": watermark,
        "priority": priority,
        "predicates": predicates,
        "action": action,
        "reason_trail": [entry.to_wire() for entry in reason_trail],
    }
    return structure(parts, FilterRule, "filter rule")
