"""Plain numbers that daemons keep of their work, and the values in which they report them."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.shapes import Lenient

# Histograms: how often a measured value lay in each of some fixed ranges.
#
# Theory. To add a value costs one search among some 15 bounds and two additions; nothing is kept of the value itself.
# A histogram may be written by one thread and read by another: each of its numbers is right at some instant of the
# reading, which is all that a graph needs. It has at most one writer at a time.
#
# Source: DESIGN section 15.


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


# The calls and connections of a server, counted.
#
# Source: DESIGN section 15.


@attrs.frozen
class CallCounts(Lenient):
    """The counts of a server since its start."""

    calls: int = 0
    # number of failed calls by the code of the error (`common.errors`)
    refused: Mapping[str, int] = attrs.field(factory=dict)
    # number of open connections
    connections: int = 0
    connections_refused: int = 0


class CallTally:
    """Counts of a server while it serves."""

    __slots__ = ("_refused", "calls", "connections", "connections_refused")

    def __init__(self) -> None:
        self.calls = 0
        self.connections = 0
        self.connections_refused = 0
        self._refused: dict[str, int] = {}

    def refuse(self, code: str) -> None:
        """Count a call that failed with this error code."""
        self._refused[code] = self._refused.get(code, 0) + 1

    def read(self) -> CallCounts:
        return CallCounts(self.calls, dict(self._refused), self.connections, self.connections_refused)


# Numbers of the commits of a daemon to etcd, where its changes are replicated under a lease.
#
# Counters and the histogram begin anew with each daemon.


@attrs.frozen(kw_only=True)
class CommitWork(Lenient):
    # commits that were carried out, and those that were not
    commits: int = 0
    failures: int = 0
    # requests that were sent again, since it was not known what had become of them
    retries: int = 0
    # commits that wait
    waiting: int = 0
    # changes that some candidate may lack
    uncopied: int = 0
    # seconds since etcd has replied last, while something waits for it; 0: nothing does
    silent_s: float = 0.0
    # whether etcd has refused the last change for want of space
    is_full: bool = False
    # seconds of transactions, with their retries
    durations: Distribution = attrs.field(factory=Distribution)
