"""Counters over a sliding window of time: how much they have grown, by second.

Source: mond.md 4, cpu-avg-load.
"""

from collections import deque
from collections.abc import Sequence

# samples that are kept at most, whatever the interval
_MOST = 4096
# time in which a rate can be told
_LEAST_S = 0.5


class Window:
    """Samples of the last seconds, and the one before them. Args: length_s: its length."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._samples: deque[tuple[float, tuple[int, ...]]] = deque(maxlen=_MOST)

    def add(self, at_s: float, counters: Sequence[int]) -> None:
        """Add a sample. Args: at_s: a clock that never goes back. Other counters than before begin a new window."""
        if self._samples and len(self._samples[-1][1]) != len(counters):
            self._samples.clear()
        self._samples.append((at_s, tuple(counters)))
        while len(self._samples) > 2 and self._samples[1][0] <= at_s - self._length_s:
            self._samples.popleft()

    def rates(self) -> Sequence[float] | None:
        """Growth by second of each counter, from the oldest sample to the newest; None: there are too few."""
        if len(self._samples) < 2:
            return None
        (began_s, first), (ended_s, last) = self._samples[0], self._samples[-1]
        elapsed_s = ended_s - began_s
        if elapsed_s < _LEAST_S:
            return None
        # some counters of the kernel may go back a little
        return [max(after - before, 0) / elapsed_s for before, after in zip(first, last, strict=True)]
