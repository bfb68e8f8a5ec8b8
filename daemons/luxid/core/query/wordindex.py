"""The words of the jobs that wait or run, in a few long texts: what no job has is found without a look at each.

Theory. To make the words of a job takes some ten microseconds, so a search through a hundred thousand jobs took a
second, each time. Here the words of neighbouring jobs lie in one text, made when somebody searches. A search through
texts takes a thousandth of the time. It only tells which jobs cannot pass a filter: those that are left are judged as
ever. When a job changes, the text that it is in is thrown away, and the next search makes it anew.

The texts take a bounded number of bytes; jobs whose words find no room are not indexed, and may always pass.
"""

import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final

import attrs

from common.ids import JobId
from common.query.qlang import All, Compare, Expression, Matches, Order, Some

# number of neighbouring ids whose words share a text
SHARE: Final = 256
# bytes of all texts
MOST_BYTES: Final = 32 * 2**20
# no text of a job has it
_BETWEEN: Final = "\0"
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_WORDS: Final = "words"


@attrs.frozen
class _Text:
    """The words of some jobs, one after the other."""

    text: str
    # in the order of their words, and where those begin
    job_ids: tuple[JobId, ...]
    starts: tuple[int, ...]

    def having(self, word: str) -> set[JobId]:
        found: set[JobId] = set()
        at = self.text.find(word)
        while at >= 0:
            place = bisect_right(self.starts, at) - 1
            found.add(self.job_ids[place])
            if place + 1 == len(self.starts):
                break
            at = self.text.find(word, self.starts[place + 1])
        return found


class WordIndex:
    """The words of unended jobs. Args: most_bytes: of all texts."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        # number of the share -> its text
        self._texts: dict[int, _Text] = {}
        self._bytes = 0
        # shares without a text
        self._stale: set[int] = set()
        # jobs whose words were made, so far
        self.made = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    def changed(self, job_id: JobId) -> None:
        """A job is new, has changed, or is gone."""
        number = job_id // SHARE
        self._stale.add(number)
        if (text := self._texts.pop(number, None)) is not None:
            self._bytes -= _size(text)

    def stale(self) -> list[range]:
        """The ids of each share that has no text; give each to `make`."""
        return [range(number * SHARE, (number + 1) * SHARE) for number in sorted(self._stale)]

    def make(self, ids: range, words: Iterable[tuple[JobId, str]]) -> None:
        """Take the words of all unended jobs of a share, now. A share for which there is no room has no text."""
        number = ids.start // SHARE
        job_ids: list[JobId] = []
        starts: list[int] = []
        parts: list[str] = []
        at = 0
        for job_id, text in words:
            job_ids.append(job_id)
            starts.append(at)
            parts.append(text.replace(_BETWEEN, " ") + _BETWEEN)
            at += len(text) + 1
        self.made += len(job_ids)
        self._stale.discard(number)
        made = _Text("".join(parts), tuple(job_ids), tuple(starts))
        if job_ids and self._bytes + _size(made) <= self._most_bytes:
            self._texts[number] = made
            self._bytes += _size(made)

    def cannot_pass(self, filter: Expression) -> set[JobId]:
        """Unended jobs that do not pass the filter, whatever else is known of them.

        Cost: linear in the texts for each word, and in the returned jobs.
        """
        test = _candidates(filter)
        found: set[JobId] = set()
        if test is not None:
            for text in self._texts.values():
                passing = test(text)
                found.update(set(text.job_ids).difference(passing) if passing else text.job_ids)
        return found


def is_about_words(filter: Expression | None) -> bool:
    """Whether an index may spare the look at some jobs."""
    return filter is not None and _WORDS in filter.field_names() and _candidates(filter) is not None


# the jobs of a text that may pass
_Test = Callable[[_Text], set[JobId]]


def _candidates(filter: Expression) -> _Test | None:
    """None: all may pass."""
    match filter:
        case All(parts=parts):
            tests = [test for part in parts if (test := _candidates(part)) is not None]
            return (lambda text: reduce(set.intersection, (test(text) for test in tests))) if tests else None
        case Some(parts=parts):
            tests = [test for part in parts if (test := _candidates(part)) is not None]
            is_whole = len(tests) == len(parts) and tests
            return (lambda text: reduce(set.union, (test(text) for test in tests))) if is_whole else None
        case Matches(field="words", regex=regex) if (word := _literal(regex.pattern)) is not None:
            return lambda text: text.having(word)
        case Compare(field="id", order=Order.EQUAL, value=int() as value):
            return lambda text: {JobId(value)}
        case _:
            return None


def _literal(pattern: str) -> str | None:
    """The text that the pattern looks for; None: it looks for more than one."""
    text = _ESCAPED.sub(r"\1", pattern)
    return text if re.escape(text) == pattern and _BETWEEN not in text else None


def _size(text: _Text) -> int:
    return sys.getsizeof(text.text) + 16 * len(text.job_ids)
