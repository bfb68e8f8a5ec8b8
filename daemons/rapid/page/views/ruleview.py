"""The filter rules in the order in which they are evaluated, and the buckets of rate limits."""

from collections.abc import Sequence
from typing import Final, Self

import attrs

from common.objects.filter import FilterRule
from common.queue.filters.actions import Action, ActionKind
from common.queue.filters.ruleloads import BucketLoad, RuleLoad, RuleLoads
from common.words.text import json_text
from common.words.times import bare_clock

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
    # number of queued jobs that it holds back; None: it holds none back by its kind
    held: int | None
    # of a RATE_LIMIT: number of jobs that count against it now
    running: int
    # number of jobs that it rejected since luxid's start
    rejected: int

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

    @classmethod
    def of(cls, load: BucketLoad) -> Self:
        return cls(load.name, load.running, load.limit, load.held)

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.running / self.limit)) if self.limit else 100


def in_order(rules: Sequence[FilterRule]) -> list[FilterRule]:
    """The rules as the chain has them."""
    return sorted(rules, key=lambda rule: (rule.priority, rule.watermark, rule.uuid))


def rule_lines(rules: Sequence[FilterRule], loads: RuleLoads) -> tuple[RuleLine, ...]:
    """A rule that was added while the two were read has no load yet."""
    by_uuid = {load.uuid: load for load in loads.rules}
    return tuple(_line(rule, by_uuid.get(rule.uuid) or RuleLoad(rule.uuid)) for rule in in_order(rules))


def bucket_lines(loads: RuleLoads) -> tuple[BucketLine, ...]:
    """Those that hold back most jobs come first."""
    return tuple(map(BucketLine.of, loads.buckets))


def _line(rule: FilterRule, load: RuleLoad) -> RuleLine:
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
        tuple((entry.source, entry.reason, bare_clock(entry.at_ns / 1e9)) for entry in rule.reason_trail),
        load.held if holds_back(rule) else None,
        load.running,
        load.rejected,
    )


def holds_back(rule: FilterRule) -> bool:
    """Whether queued jobs may wait because of it."""
    return Action.from_wire(rule.action).kind in (ActionKind.PAUSE, ActionKind.RATE_LIMIT)
