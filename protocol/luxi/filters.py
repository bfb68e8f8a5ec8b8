"""Setting filter rules.

Source: luxid.md section 2.
"""

from typing import Any

import attrs

from protocol.messages import Request


@attrs.frozen
class ReplaceFilter(Request[str]):
    """Add a filter rule (uuid null), or make or replace that of the uuid; answers the uuid."""

    METHOD = "ReplaceFilter"
    uuid: str | None
    # 0 or more; smaller comes first
    priority: int
    # `["jobid" | "opcode" | "reason", expression]`; all must hold
    predicates: tuple[Any, ...]
    # ACCEPT, PAUSE, REJECT, CONTINUE or `["RATE_LIMIT", n]`
    action: Any
    reason_trail: tuple[Any, ...]


@attrs.frozen
class DeleteFilter(Request[Any]):
    """Delete a filter rule; answers null."""

    METHOD = "DeleteFilter"
    uuid: str
