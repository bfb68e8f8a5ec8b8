"""A subscription that survives the restarts of its daemon.

Source: DESIGN sections 6 and 8.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

from common.errors import RemoteError, Unavailable
from protocol.dial import pauses

T = TypeVar("T")


def nothing() -> None:
    """For what nobody needs to know."""


class LastingFeed(Generic[T]):
    """What a daemon tells, in order; for one task.

    Args:
        begin: subscribes; returns the beginning.
        read: waits for the next event; None: it means nothing to us.
        lost: called when the daemon is away, once until it is back.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[T]],
        read: Callable[[], Awaitable[T | None]],
        lost: Callable[[], None] = nothing,
    ) -> None:
        self._begin = begin
        self._read = read
        self._lost = lost
        # after attempts, and after refusals, in a row
        self._pauses = pauses()
        self._refusals = pauses()
        self._is_connected = False

    async def next(self) -> T:
        """Wait for the next event, however long the daemon is away.

        Raises: as `begin` and `read`, except Unavailable.
        Cancellation: safe; the next call begins with a beginning.
        """
        while True:
            was_connected = self._is_connected
            self._is_connected = False
            try:
                told = await (self._next() if was_connected else self._begin())
            except Unavailable:
                if was_connected:
                    # the first attempt is made at once: the daemon may be back
                    self._lost()
                else:
                    await trio.sleep(next(self._pauses))
            except RemoteError as error:
                if error.code != Unavailable.code:
                    raise
                # this caller is too slow, or the daemon lacks something: it may say the same again at once
                await trio.sleep(next(self._refusals))
            else:
                self._is_connected = True
                self._pauses = pauses()
                return told

    async def _next(self) -> T:
        while True:
            told = await self._read()
            if told is not None:
                self._refusals = pauses()
                return told
