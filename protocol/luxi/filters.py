"""Set filter rules.

Source: luxid.md section 2.
"""

import attrs

from common.ids import JobId
from common.queue.filters.ruleloads import RuleLoads
from protocol.messages import Request


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule (uuid null), or create or replace the one with the uuid; returns the uuid."""

    METHOD = "ReplaceFilter"
    uuid: str | None
    # >= 0; smaller comes first
    priority: int
    # `["jobid" | "opcode" | "reason", expression]`; all must hold
    predicates: tuple[object, ...]
    # ACCEPT, PAUSE, REJECT, CONTINUE or `["RATE_LIMIT", n]`
    action: object
    reason_trail: tuple[object, ...]


@attrs.frozen
class DeleteFilter(Request[None]):
    """Delete a filter rule; returns null."""

    METHOD = "DeleteFilter"
    uuid: str


@attrs.frozen
class TryFilterRule(Request[tuple[JobId, ...]]):
    """The queued jobs to which a rule would apply, by id; nothing is changed. Ours.

    The rule is evaluated as `ReplaceFilter` would set it now, among the existing rules. It applies to a job if it
    matches the job and no earlier rule applies.
    """

    METHOD = "TryFilterRule"
    # as for `ReplaceFilter`; null: a new rule
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object


@attrs.frozen
class ReadRuleLoads(Request[RuleLoads]):
    """What the rules in force and the buckets do to the jobs now, in numbers. Ours."""

    METHOD = "ReadRuleLoads"
