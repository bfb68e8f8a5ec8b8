"""A filter rule: what the configuration keeps of it, and what a user asks for.

All doors make it by one structure hook, so a malformed rule is refused in the same words everywhere. Whether its
conditions can ever match is checked by `common.queue.filters`.

Source: wconfd.md 7.3; luxid.md 6.1; filters design.
"""

import enum
from collections.abc import Iterable

import attrs

from common.conditions import tag_of
from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.reasons import ReasonTrail
from common.shapes import OwnForm
from common.wire import expected, read_asked, unstructure


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
        """Raises: InvalidRequest, ValueError: the value is not an action, or its limit is not greater than 0."""
        match value:
            case "ACCEPT" | "PAUSE" | "REJECT" | "CONTINUE":
                return cls(ActionKind(value))
            case ["RATE_LIMIT", int() as limit] if not isinstance(limit, bool):
                if limit <= 0:
                    raise InvalidRequest(f"RATE_LIMIT must be greater than 0, got {limit}; PAUSE lets none run")
                return cls(ActionKind.RATE_LIMIT, limit)
            case _:
                raise expected("ACCEPT, PAUSE, REJECT, CONTINUE or ['RATE_LIMIT', n]", value)


@attrs.frozen
class RuleCondition(OwnForm):
    """What a rule tests; on the wire `[name of the predicate, expression]`."""

    # name of a predicate; that of a missing plug-in keeps its place
    predicate: str
    # expression of the query language in its wire form
    expression: object

    def to_wire(self) -> object:
        return [self.predicate, self.expression]

    @classmethod
    def from_wire(cls, value: object) -> "RuleCondition":
        """Raises: ValueError: the value has another form; the expression is not read."""
        match value:
            case [str() as predicate, list() | tuple() | None as expression]:
                return cls(predicate, expression)
            case _:
                raise expected("[name, expression]", value)


def _is_priority(_: object, __: object, value: int) -> None:
    if value < 0:
        raise ValueError(f"expected a priority of at least 0, got {value}")


@attrs.frozen(kw_only=True)
class FilterRule:
    """The rules are a chain in the order of (priority, watermark, uuid); the first that matches a job decides."""

    # last job id used when the rule was added
    watermark: JobId
    # rank in the chain; smaller comes first
    priority: int = attrs.field(validator=_is_priority)
    # `[what is tested, expression of the query language]`; all of them must hold
    predicates: tuple[RuleCondition, ...]
    # word of the action, or `["RATE_LIMIT", n]`
    action: Action
    # who added it, and why: `[source, reason, nanoseconds since 1970]`
    reason_trail: ReasonTrail
    uuid: str

    @property
    def place(self) -> tuple[int, int, str]:
        """By which the rules of a chain are ordered."""
        return self.priority, self.watermark, self.uuid


def rule_tag(rule: FilterRule) -> str:
    """By which a change says what it takes the rule for; what is shown beside a rule does not count."""
    return tag_of({field.name: getattr(rule, field.name) for field in attrs.fields(FilterRule)})


def asked_rule(
    action: object,
    predicates: Iterable[object],
    *,
    priority: int = 0,
    reason_trail: Iterable[object] = (),
    uuid: str | None = None,
) -> FilterRule:
    """A rule that a user asks for, from its parts or their JSON values.

    Args: uuid: None: it is a new one, and luxid gives it one.
    Returns: the rule without its watermark, and if it is new without its uuid.
    Raises: InvalidRequest: a part is malformed, with its path: `predicates[1]: expected ...`.
    """
    parts = {
        "watermark": 0,
        "priority": priority,
        "predicates": list(predicates),
        "action": action,
        "reason_trail": list(reason_trail),
        "uuid": uuid or "",
    }
    return read_asked(unstructure(parts), FilterRule)
