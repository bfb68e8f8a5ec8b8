"""Stops of this process: while it could not run, another node may have become the master.

Theory. After a stop (a suspended machine, a signal) all limits of time are over at once, and nodes that would have
refused a call count as not reached. So a beat shows how long the process ran without a stop; a change that finds the
beat too old lets the nodes be asked before it counts. One call is enough: node daemons refuse those of an old master.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from common.system.log import get_log

BEAT_S: Final = 0.5
# seconds without a beat that count as a stop; a busy event loop may be late, too, which costs one question
STOPPED_S: Final = 1.25
_log: Final = get_log(__name__)


class Stops:
    """Start `run`; call `passed` before a change counts. Args: ask: asks the nodes who is the master."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._asking = trio.Lock()
        # None: `run` has not begun
        self._beat_at: float | None = None

    async def run(self) -> None:
        """Beat, until cancelled. Raises: as `ask`."""
        self._beat_at = trio.current_time()
        while True:
            await trio.sleep(BEAT_S)
            await self.passed()
            self._beat_at = trio.current_time()

    async def passed(self) -> None:
        """Return at once, or, after a stop, when the nodes were asked. Raises: as `ask`."""
        if not self._was_stopped:
            return
        async with self._asking:
            if self._was_stopped:
                _log.warning("process.was_stopped", asked="whether another node is the master")
                await self._ask()
                self._beat_at = trio.current_time()

    @property
    def _was_stopped(self) -> bool:
        return self._beat_at is not None and trio.current_time() - self._beat_at > STOPPED_S
