"""The record of removals: which jobs, and which histories of waits, this cluster has removed on purpose. Pure.

Theory. A file that a node has and the master lacks has either been removed, while the node was away, or it was lost on
the master. The record tells these apart: it names what was removed, and is durable before the first of the files is
gone. So a node loses only what the record names; all else that it has beyond the master may be the last good copy.
A crash between the record and the removal leaves a file that is named and still there; it was due, and goes the next
time.

Ids are kept as ranges, since jobs are removed from the oldest on. What was removed before the record was begun is not
in it, so nothing can be said of a missing job up to `begun_at` unless somebody still has its file. If there are too
many ranges, the lowest are dropped in the same way: then more is kept than necessary, and never less.

Source: DESIGN section 11, "a job that is missing on the master".
"""

import bisect
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import attrs
import orjson

from common.errors import DamagedFile, GantryError
from common.wire import structure

# ranges of jobs that are kept: some 300 KB, written once for some hundred removed jobs
MOST_RANGES: Final = 20_000


@attrs.frozen
class Ranges:
    """A set of whole numbers. Args: pairs: first and last of each range; ascending, and no two of them touch."""

    pairs: tuple[tuple[int, int], ...] = ()

    def __contains__(self, number: int) -> bool:
        at = bisect.bisect_right(self.pairs, (number, float("inf"))) - 1
        return at >= 0 and number <= self.pairs[at][1]

    def with_more(self, numbers: Iterable[int]) -> "Ranges":
        """Cost: O(ranges + numbers), and the sorting of the numbers."""
        new = [(number, number) for number in sorted(set(numbers)) if number not in self]
        return Ranges(tuple(_merged(sorted([*self.pairs, *new])))) if new else self


@attrs.frozen
class Removals:
    """What was removed."""

    # highest job id that was in use when the record was begun
    begun_at: int = 0
    jobs: Ranges = Ranges()
    # numbers of files of histories
    waits: Ranges = Ranges()

    @property
    def names_any(self) -> bool:
        return bool(self.jobs.pairs or self.waits.pairs)

    def with_jobs(self, job_ids: Iterable[int]) -> "Removals":
        """The same record, if it has them already."""
        jobs = self.jobs.with_more(job_ids)
        if jobs is self.jobs:
            return self
        dropped, kept = jobs.pairs[:-MOST_RANGES], jobs.pairs[-MOST_RANGES:]
        begun_at = max(self.begun_at, dropped[-1][1]) if dropped else self.begun_at
        return attrs.evolve(self, jobs=Ranges(kept), begun_at=begun_at)

    def with_waits(self, numbers: Iterable[int]) -> "Removals":
        """The same record, if it has them already."""
        waits = self.waits.with_more(numbers)
        return self if waits is self.waits else attrs.evolve(self, waits=Ranges(waits.pairs[-MOST_RANGES:]))


@attrs.frozen
class _Form:
    begun_at: int
    jobs: list[tuple[int, int]]
    waits: list[tuple[int, int]]


def encode_removals(removals: Removals) -> bytes:
    return orjson.dumps(attrs.asdict(_Form(removals.begun_at, [*removals.jobs.pairs], [*removals.waits.pairs]))) + b"\n"


def decode_removals(content: bytes, name: str) -> Removals:
    """Args: name: of the file. Raises: DamagedFile: it holds no such record."""
    try:
        form = structure(orjson.loads(content), _Form, "removals")
        return Removals(form.begun_at, _ranges(form.jobs), _ranges(form.waits))
    except (ValueError, GantryError) as error:
        reason = error.message if isinstance(error, GantryError) else str(error)
        raise DamagedFile(
            f"'{name}' is not the record of removed jobs: {reason}; copy it from a master candidate, or remove it: "
            "then nothing that was removed until now is known, and nodes that have it set it aside",
            file=name,
        ) from error


def _ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Raises: ValueError: they are not ranges in ascending order."""
    found = tuple((first, last) for first, last in pairs)
    if any(first > last for first, last in found) or any(before[1] >= next_[0] for before, next_ in pairwise(found)):
        raise ValueError("its ranges are not ascending")
    return Ranges(found)


def _merged(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    current: tuple[int, int] | None = None
    for first, last in pairs:
        if current is not None and first <= current[1] + 1:
            current = current[0], max(current[1], last)
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current
