"""Histograms: how often a measured value lay in each of some fixed ranges.

Theory. To add a value costs one search among some 15 bounds and two additions; nothing is kept of the value itself.
A histogram may be written by one thread and read by another: each of its numbers is right at some instant of the
reading, which is all that a graph needs. It has at most one writer at a time.

Source: DESIGN section 15.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import attrs

from common.shapes import Lenient

# upper ends of ranges, in seconds: work of the daemons, from one decision to a disk that hangs
WORK_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
# waits of jobs
WAIT_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
# run times of opcodes; few, as there is one histogram for each opcode
RUN_S: Final = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 21600.0)


@attrs.frozen
class Distribution(Lenient):
    """A histogram as it is reported."""

    # upper ends of the ranges, ascending; a value belongs to the first range whose end it does not exceed
    bounds: tuple[float, ...] = ()
    # number of values in each range, the last one for those beyond all bounds; so one more than bounds
    counts: tuple[int, ...] = (0,)
    # sum of all values
    total: float = 0.0

    @property
    def count(self) -> int:
        """Number of all values."""
        return sum(self.counts)


class Histogram:
    """Counts values by ranges with these upper ends, ascending."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def add(self, value: float) -> None:
        """Count one value. Cost: O(log bounds)."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def read(self) -> Distribution:
        return Distribution(self._bounds, tuple(self._counts), self._total)
