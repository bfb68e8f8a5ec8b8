"""Why jobs do not run, in words with links to what stops them."""

from collections.abc import Iterator, Sequence

from common.queue.explanation import HeldByRule, LevelWeight, LimitFull, LockChain, Reason, WaitsForLock
from common.words.why.reasons import in_short, in_words, worth_telling
from daemons.rapid.page.views.links import Piece, linked, lock_href, rule_href, shortened


def why_short(reasons: Sequence[Reason] | None, now: float) -> tuple[Piece, ...]:
    """One line; empty: nothing lasting stops the job."""
    return shortened(linked(in_short(reasons or (), now), dict(_names(reasons or ()))))


def why_lines(reasons: Sequence[Reason] | None, now: float) -> tuple[tuple[Piece, ...], ...]:
    """A line for each reason."""
    names = dict(_names(reasons or ()))
    return tuple(linked(in_words(reason, now), names) for reason in worth_telling(reasons or ()))


def _names(reasons: Sequence[Reason]) -> Iterator[tuple[str, str]]:
    """The locks and rules that the words name, and where they lead."""
    for reason in reasons:
        if isinstance(reason, WaitsForLock):
            yield from _locks(str(reason.lock), *(str(held.lock) for held in reason.holders))
        elif isinstance(reason, LockChain):
            for wait in reason.waits:
                yield from _locks(str(wait.lock), *(str(held.lock) for held in wait.holders))
        elif isinstance(reason, LevelWeight):
            yield from _locks(*(str(held.lock) for held in reason.held))
        elif isinstance(reason, HeldByRule):
            yield reason.uuid, rule_href(reason.uuid)
        elif isinstance(reason, LimitFull):
            yield reason.name, "/ui/filters#buckets" if reason.is_bucket else rule_href(reason.name)


def _locks(*names: str) -> Iterator[tuple[str, str]]:
    return ((name, lock_href(name)) for name in names)
