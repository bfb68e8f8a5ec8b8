"""The filter rules in the order in which they are evaluated, and the buckets of rate limits."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.queue.filteractions import Action, ActionKind
from common.words.text import json_text
from common.words.times import clock

RULE_FIELDS: Final = ("uuid", "watermark", "priority", "predicates", "action", "reason_trail")


@attrs.frozen
class RuleLine:
    uuid: str
    priority: int
    watermark: int
    # word of the action, which is a class of the style sheet in small letters, too
    action: str
    # number of a RATE_LIMIT; None: another action
    limit: int | None
    # (what is tested, expression as JSON)
    predicates: tuple[tuple[str, str], ...]
    # (source, reason, instant)
    trail: tuple[tuple[str, str, str], ...]
    # number of jobs that it holds back, of those that were asked; None: it holds none back by its kind
    touched: int | None

    @property
    def name(self) -> str:
        """What people gave as the reason; else the beginning of its uuid."""
        return next((reason for _, reason, _ in self.trail if reason), f"{self.uuid[:8]}…")


@attrs.frozen
class BucketLine:
    name: str
    running: int
    limit: int
    waiting: int

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.running / self.limit)) if self.limit else 100


def in_order(rules: Sequence[FilterRule]) -> list[FilterRule]:
    """The rules as the chain has them."""
    return sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid))


def rule_lines(rules: Sequence[FilterRule], touched: Mapping[str, int]) -> tuple[RuleLine, ...]:
    """Args: touched: uuid -> number of jobs that the rule holds back."""
    return tuple(_line(rule, touched.get(rule.uuid, 0) if holds_back(rule) else None) for rule in in_order(rules))


def _line(rule: FilterRule, touched: int | None) -> RuleLine:
    action = Action.from_wire(rule.action)
    return RuleLine(
        rule.uuid,
        rule.priority,
        rule.watermark,
        action.kind.value,
        action.limit,
        tuple(
            (name, "always" if expression is None else json_text(expression)) for name, expression in rule.conditions()
        ),
        tuple((entry.source, entry.reason, clock(entry.at_ns / 1e9)) for entry in rule.reason_trail),
        touched,
    )


def holds_back(rule: FilterRule) -> bool:
    """Whether queued jobs may wait because of it."""
    return Action.from_wire(rule.action).kind in (ActionKind.PAUSE, ActionKind.RATE_LIMIT)
