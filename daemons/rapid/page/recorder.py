"""Numbers of luxid over the last hour, for curves: read at fixed intervals, and kept in memory."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

import trio

from common.errors import GantryError
from daemons.rapid.page.views.figures import Sample
from protocol.luxi.daemon import LuxidMetrics

EVERY_S: Final = 5.0
_KEPT: Final = 720


class Recorder:
    """Args: read: asks luxid."""

    def __init__(self, read: Callable[[], Awaitable[LuxidMetrics]]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=_KEPT)

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples so far, oldest first."""
        return tuple(self._samples)

    async def run(self) -> NoReturn:
        """Take a sample at each interval; without luxid there is a gap. For a task of its own."""
        while True:
            # without luxid: what is wrong is told by the pages themselves
            with suppress(GantryError):
                self._samples.append(Sample(time.time(), await self._read()))
            await trio.sleep(EVERY_S)
