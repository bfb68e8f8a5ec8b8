"""The places for connections: at most so many, and an idle one is closed for a new one.

Theory. A connection on which no request is under way, or whose handshake is not over, holds a place for nothing: where
that is allowed, the one that has been so for the longest is closed when a new one needs its place. If all have requests
under way, a few more are let in, to be told so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import trio

from common.system.log import get_log

_log: Final = get_log(__name__)


@attrs.define(eq=False)
class Place:
    """The place of one connection."""

    # cancelled when the place is given to another one
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    # whether the connection is there only to be told that there is no room
    is_spare: bool = False
    has_ended: bool = False


class Places:
    """For one event loop.

    Args: spare: places beyond `limit` for connections that are refused; 0: further ones wait, and none is closed.
    """

    def __init__(self, limit: int, spare: int) -> None:
        self._limit = limit
        self._spare = spare
        self._free = trio.Semaphore(limit + spare)
        # places of connections without a request, the oldest first
        self._idle: dict[Place, None] = {}
        self._is_full = False
        # connections there are, without those that are being closed for others
        self.taken = 0

    async def wait(self) -> None:
        """Wait for a place; `hold` or `give_back` must follow."""
        if self._free.value:
            self._is_full = False
        elif not self._is_full:
            self._is_full = True
            _log.warning("connections.full", max_clients=self._limit, effect="further callers wait")
        await self._free.acquire()

    def give_back(self) -> None:
        """Nobody came for the place."""
        self._free.release()

    @contextmanager
    def hold(self) -> Iterator[Place]:
        """The place of a connection while the context lasts, which ends early if another one needs it."""
        if self._spare and self.taken >= self._limit and self._idle:
            self._end(next(iter(self._idle)))
        place = Place(is_spare=self._spare > 0 and self.taken >= self._limit)
        self.taken += 1
        self._idle[place] = None
        try:
            with place.scope:
                yield place
        finally:
            self._end(place)
            self._free.release()

    def set_idle(self, place: Place, is_idle: bool) -> None:
        """Note whether no request is under way on the connection."""
        self._idle.pop(place, None)
        if is_idle and not place.has_ended:
            self._idle[place] = None

    def _end(self, place: Place) -> None:
        if not place.has_ended:
            place.has_ended = True
            self._idle.pop(place, None)
            self.taken -= 1
            place.scope.cancel()
