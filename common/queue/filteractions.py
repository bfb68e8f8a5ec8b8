"""The actions of filter rules, and what rules do to the jobs of the queue, in numbers."""

import enum

import attrs

from common.errors import InvalidRequest
from common.shapes import Lenient, OwnForm

# The actions of filter rules.
#
# Source: luxid.md 6.1; filters design.


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


# What filter rules and buckets do to the jobs of the queue, in numbers.
#
# Source: filters design; luxid.md 5.5, 6.


@attrs.frozen
class RuleLoad(Lenient):
    """What one filter rule does."""

    uuid: str
    # number of jobs since luxid's start: refused when they came, or canceled in the queue
    rejected: int = 0
    # queued jobs that wait for no other job, and that the rule keeps from starting: it says PAUSE, or its limit is full
    held: int = 0
    # for RATE_LIMIT the jobs that count against the limit now, and the limit; else 0 and None
    running: int = 0
    limit: int | None = None


@attrs.frozen
class BucketLoad(Lenient):
    """What one bucket does: the jobs that share a reason `rate-limit:<name>`."""

    name: str
    # queued jobs that wait for no other job, and that name the bucket while it is full
    held: int
    running: int
    limit: int


@attrs.frozen
class RuleLoads(Lenient):
    # all rules in force
    rules: tuple[RuleLoad, ...] = ()
    # the buckets that hold back most jobs come first; those without queued and running jobs are unknown
    buckets: tuple[BucketLoad, ...] = ()
    # number of buckets, which may be more than are told
    bucket_count: int = 0
