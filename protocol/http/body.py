"""The body of a request, bounded in size and time.

Theory. A body is read to its end before the reply, also before a refusal: else the client, which still writes, may
lose the reply, and the connection cannot be used again. What is too much is read and thrown away, up to some more;
after that the connection is closed. One whose announced length is beyond even that is refused at once. Bodies of more
than `_SMALL` bytes wait for each other, so that not all connections hold large ones at once.

Source: noded.md 2.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import attrs
import trio

from protocol.http.connection import Receive, Scope

_SMALL: Final = 2**20
_LARGE_AT_ONCE: Final = 8
# bytes beyond the limit that are still read, as a multiple of it
_PATIENCE: Final = 3


class BodyRefused(Exception):
    """The body is not taken."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class HungUp(Exception):
    """The caller closed the connection before the body was complete."""


async def until_gone(receive: Receive) -> None:
    """Return when the caller has closed the connection. Args: receive: of a request whose body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


@attrs.define
class _Part:
    # one buffer: a client may send its bytes one by one
    content: bytearray = attrs.Factory(bytearray)
    size: int = 0
    is_complete: bool = False

    async def read_until(self, receive: Receive, limit: int) -> None:
        """Read on, until the body is complete or has more bytes than that."""
        while not self.is_complete and self.size <= limit:
            self.content += await self._next(receive)

    async def skip_until(self, receive: Receive, limit: int) -> None:
        """`read_until`, without keeping anything."""
        self.content.clear()
        while not self.is_complete and self.size <= limit:
            await self._next(receive)

    async def _next(self, receive: Receive) -> bytes:
        message = await receive()
        if message["type"] != "http.request":
            raise HungUp
        chunk: bytes = message["body"]
        self.size += len(chunk)
        self.is_complete = not message["more_body"]
        return chunk


class Bodies:
    """Reads the bodies of all requests.

    Args: limit: bytes. timeout_s: from the headers to the end of a body.
    """

    def __init__(self, limit: int, timeout_s: float) -> None:
        self._limit = limit
        self._timeout_s = timeout_s
        self._large = trio.CapacityLimiter(_LARGE_AT_ONCE)

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive, limit: int | None = None) -> AsyncIterator[bytes]:
        """The body; while the context lasts, a large one counts as held.

        Args: limit: bytes for this caller, if less than for others.
        Raises: BodyRefused, HungUp.
        """
        part, limit = _Part(), min(self._limit, limit or self._limit)
        if self._is_hopeless(scope):
            raise _too_large(limit)
        async with AsyncExitStack() as held:
            with trio.move_on_after(self._timeout_s) as cut:
                await part.read_until(receive, min(_SMALL, limit))
                # one that is too large already is not kept, so it takes nobody's place
                if not part.is_complete and part.size <= limit:
                    await held.enter_async_context(self._large)
                    await part.read_until(receive, limit)
                if part.size > limit:
                    await part.skip_until(receive, self._most_skipped)
            if cut.cancelled_caught:
                raise BodyRefused(408, f"the body was not complete after {self._timeout_s:g} s")
            if part.size > limit:
                raise _too_large(limit)
            yield bytes(part.content)

    async def skip(self, scope: Scope, receive: Receive) -> bool:
        """Read a body that nobody wants, as far as `read` would; return whether that was all. Raises: HungUp."""
        if self._is_hopeless(scope):
            return False
        part = _Part()
        with trio.move_on_after(self._timeout_s):
            await part.skip_until(receive, self._most_skipped)
        return part.is_complete

    @property
    def _most_skipped(self) -> int:
        return (1 + _PATIENCE) * self._limit

    def _is_hopeless(self, scope: Scope) -> bool:
        """Whether the headers announce a body that would not be read to its end."""
        for name, value in scope["headers"]:
            if name == b"content-length":
                # the server has checked that it is a number
                return int(value) > self._most_skipped
        return False


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(413, f"the body of a request is at most {limit} bytes")
