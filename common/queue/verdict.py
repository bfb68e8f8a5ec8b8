"""Verdicts with three values: true, false, and unknown (None).

This is Kleene's logic, as in SQL: a verdict is unknown if it depends on an unknown value.
"""

from collections.abc import Iterable

Verdict = bool | None


def negated(verdict: Verdict) -> Verdict:
    """The negation; of unknown it is unknown."""
    return None if verdict is None else not verdict


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """False at the first false verdict, and the rest is not evaluated; else unknown if any is; true without any."""
    found: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            found = None
    return found


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True at the first true verdict, and the rest is not evaluated; else unknown if any is; false without any."""
    found: Verdict = False
    for verdict in verdicts:
        if verdict is True:
            return True
        if verdict is None:
            found = None
    return found
