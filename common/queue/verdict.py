"""Verdicts with a third value: true, false, and unknown, which is None.

Kleene's logic, as in SQL: unknown is whatever would change with a value that nobody knows.
"""

from collections.abc import Iterable

Verdict = bool | None


def negated(verdict: Verdict) -> Verdict:
    """The negation; of unknown it is unknown."""
    return None if verdict is None else not verdict


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """False at the first false one, and no more is taken; else unknown if any is; true without any."""
    found: Verdict = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            found = None
    return found


def any_of(verdicts: Iterable[Verdict]) -> Verdict:
    """True at the first true one, and no more is taken; else unknown if any is; false without any."""
    found: Verdict = False
    for verdict in verdicts:
        if verdict is True:
            return True
        if verdict is None:
            found = None
    return found
