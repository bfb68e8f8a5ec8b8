"""What the outcomes of calls to node daemons mean for a query.

Source: luxid.md 7.6, "live data"; noded.md 4.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from daemons.luxid.core.query.live import NoFacts
from protocol.noded.clients.outcomes import Failed, FailureKind, Outcome, Replied

R = TypeVar("R")

# failures that are told one by one
_TOLD: Final = 5


def facts_of(outcome: Outcome[R]) -> R | NoFacts:
    """What a node daemon told, or why it told nothing."""
    if isinstance(outcome, Replied):
        return outcome.value
    if not isinstance(outcome, Failed):
        return NoFacts.OFFLINE
    return NoFacts.NOT_ASKED if outcome.kind is FailureKind.UNSENT else NoFacts.FAILED


def notes_on(outcomes: Iterable[Outcome[R]]) -> Sequence[str]:
    """For people: which nodes told nothing, and why; offline ones are as they should be."""
    failures = list(dict.fromkeys(outcome.text for outcome in outcomes if isinstance(outcome, Failed)))
    told = [f"no live data: {text}" for text in failures[:_TOLD]]
    return told if len(failures) <= _TOLD else [*told, f"no live data of {len(failures) - _TOLD} more nodes"]
