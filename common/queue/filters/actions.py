"""The actions of filter rules.

Source: luxid.md 6.1; filters design.
"""

import enum

import attrs

from common.errors import InvalidRequest
from common.shapes import OwnForm


class ActionKind(enum.Enum):
    """The effect of a rule on the jobs to which it applies; the value is the word on the wire."""

    ACCEPT = "ACCEPT"
    PAUSE = "PAUSE"
    REJECT = "REJECT"
    CONTINUE = "CONTINUE"
    RATE_LIMIT = "RATE_LIMIT"


@attrs.frozen
class Action(OwnForm):
    """The action of a rule; on the wire a word, or `["RATE_LIMIT", n]`."""

    kind: ActionKind
    # number of jobs, > 0, with RATE_LIMIT; else None
    limit: int | None = None

    def to_wire(self) -> object:
        return self.kind.value if self.limit is None else [self.kind.value, self.limit]

    @classmethod
    def from_wire(cls, value: object) -> "Action":
        """Raises: InvalidRequest: the value is not an action, or its limit is not greater than 0."""
        match value:
            case "ACCEPT" | "PAUSE" | "REJECT" | "CONTINUE":
                return cls(ActionKind(value))
            case ["RATE_LIMIT", int() as limit] if not isinstance(limit, bool):
                if limit <= 0:
                    raise InvalidRequest(f"action: RATE_LIMIT must be greater than 0, got {limit}; PAUSE lets none run")
                return cls(ActionKind.RATE_LIMIT, limit)
            case _:
                raise InvalidRequest(
                    f"action: expected ACCEPT, PAUSE, REJECT, CONTINUE or ['RATE_LIMIT', n], got {value!r:.60}"
                )
