"""Numbers of luxid over the last hour, for curves, and whether it answers: asked at fixed intervals."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

import trio

from common.errors import GantryError
from daemons.rapid.page.views.figures import Sample, sample_of
from daemons.rapid.page.views.frame import Silence
from protocol.metrics import DaemonMetrics

EVERY_S: Final = 5.0
_KEPT: Final = 720
# seconds until a luxid that did not answer is asked again
_AGAIN_S: Final = 1.0


class Recorder:
    """Args: read: asks luxid."""

    def __init__(self, read: Callable[[], Awaitable[DaemonMetrics]]) -> None:
        self._read = read
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        # None: luxid has not told its numbers yet
        self.latest: DaemonMetrics | None = None
        # None: luxid answers, or was not asked yet
        self.silence: Silence | None = None

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples so far, oldest first."""
        return tuple(self._samples)

    async def run(self) -> NoReturn:
        """Take a sample at each interval; without luxid there is a gap. For a task of its own."""
        while True:
            try:
                with trio.fail_after(EVERY_S):
                    metrics = await self._read()
                self._samples.append(sample_of(time.time(), metrics))
            except GantryError as error:
                self._miss(error.message)
            except trio.TooSlowError:
                self._miss("it is there, and does not reply")
            else:
                self.latest, self.silence = metrics, None
            await trio.sleep(EVERY_S if self.silence is None else _AGAIN_S)

    def _miss(self, reason: str) -> None:
        since = time.time() if self.silence is None else self.silence.since
        self.silence = Silence(since, reason)
