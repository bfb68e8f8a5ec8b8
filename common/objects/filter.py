"""A filter rule as the configuration keeps it: predicates and action are JSON values of the right shape.

Source: wconfd.md 7.3; filters design.
"""

from collections.abc import Iterator
from typing import Final

import attrs

from common.ids import JobId
from common.queue.reasons import ReasonTrail

_WORDS: Final = ("ACCEPT", "PAUSE", "REJECT", "CONTINUE")


def _is_priority(_: object, __: object, value: int) -> None:
    if value < 0:
        raise ValueError(f"expected a priority of at least 0, got {value}")


def _is_action(_: object, __: object, value: object) -> None:
    match value:
        case str() if value in _WORDS:
            return
        case ["RATE_LIMIT", int() as count] if not isinstance(count, bool) and count > 0:
            return
        case _:
            raise ValueError(f"expected {', '.join(_WORDS)} or ['RATE_LIMIT', n > 0], got {value!r}")


def _are_predicates(_: object, __: object, value: tuple[object, ...]) -> None:
    for predicate in value:
        match predicate:
            # `filterpredicates` checks the name; the predicate of a missing plug-in keeps its place
            case [str(), list() | None]:
                continue
            case _:
                raise ValueError(f"expected [name of a predicate, filter expression], got {predicate!r}")


@attrs.frozen(kw_only=True)
class FilterRule:
    """The rules are a chain in the order of (priority, watermark, uuid)."""

    # last job id used when the rule was added
    watermark: JobId
    # rank in the chain; smaller comes first
    priority: int = attrs.field(validator=_is_priority)
    # `[what is tested, expression of the query language]`; all of them must hold
    predicates: tuple[object, ...] = attrs.field(validator=_are_predicates)
    # word of the action, or `["RATE_LIMIT", n]`
    action: object = attrs.field(validator=_is_action)
    reason_trail: ReasonTrail
    uuid: str

    def conditions(self) -> Iterator[tuple[str, object]]:
        """What each predicate tests, and its expression as on the wire."""
        for predicate in self.predicates:
            match predicate:
                case [str() as name, value]:
                    yield name, value
                case _:
                    pass
