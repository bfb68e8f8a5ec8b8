"""Setting filter rules.

Source: luxid.md section 2.
"""

import attrs

from common.ids import JobId
from protocol.messages import Request


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule (uuid null), or make or replace that of the uuid; answers the uuid."""

    METHOD = "ReplaceFilter"
    uuid: str | None
    # 0 or more; smaller comes first
    priority: int
    # `["jobid" | "opcode" | "reason", expression]`; all must hold
    predicates: tuple[object, ...]
    # ACCEPT, PAUSE, REJECT, CONTINUE or `["RATE_LIMIT", n]`
    action: object
    reason_trail: tuple[object, ...]


@attrs.frozen
class DeleteFilter(Request[None]):
    """Delete a filter rule; answers null."""

    METHOD = "DeleteFilter"
    uuid: str


@attrs.frozen
class TryFilterRule(Request[tuple[JobId, ...]]):
    """The jobs waiting now that a rule would be for, by id; nothing is changed. Ours.

    The rule is taken as `ReplaceFilter` would take it now, among the rules there are. It is for a job if it matches the
    job and no earlier rule applies to it.
    """

    METHOD = "TryFilterRule"
    # as for `ReplaceFilter`; null: a new rule
    uuid: str | None
    priority: int
    predicates: tuple[object, ...]
    action: object
