"""Numbers of luxid over the last hour, for curves: read at fixed intervals, and kept in memory."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

import trio

from common.errors import GantryError
from daemons.rapid.page.views.figures import Sample, sample_of
from protocol.metrics import DaemonMetrics

EVERY_S: Final = 5.0
_KEPT: Final = 720


class Recorder:
    """Args: read: asks luxid."""

    def __init__(self, read: Callable[[], Awaitable[DaemonMetrics]]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        # None: luxid has not told its numbers yet
        self.latest: DaemonMetrics | None = None

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples so far, oldest first."""
        return tuple(self._samples)

    async def run(self) -> NoReturn:
        """Take a sample at each interval; without luxid there is a gap. For a task of its own."""
        while True:
            # without luxid: what is wrong is told by the pages themselves
            with suppress(GantryError):
                metrics = await self._read()
                self._samples.append(sample_of(time.time(), metrics))
                self.latest = metrics
            await trio.sleep(EVERY_S)
