"""Events on a connection: a reply after which the daemon continues to send.

Theory. A handler may return a `Stream`: the server sends its first reply like any other, and
from then on published events as notifications of JSON-RPC 2.0, until one of the two hangs up. A
publisher never waits for its subscribers. The events that a subscriber has not taken are its backlog. When the
backlog exceeds a limit, the subscriber has missed too much: it is told so, and its connection is closed. It
connects again, and begins anew with a first reply.

An event that is published between the making of the first reply and its sending is in the backlog:
nothing is missed, and nothing comes twice.

Source: DESIGN section 8; JSON-RPC 2.0, section 4.1.
"""

from typing import Final, Generic, Protocol, TypeVar

import trio

from common.asciijson import ascii_json
from common.errors import GantryError, Unavailable
from protocol.events import STREAM_ENDED
from protocol.framing import pack
from protocol.messages import reply_to_wire

BACKLOG_LIMIT: Final = 16 * 2**20

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Forgets(Protocol):
    """A maker of streams."""

    def forget(self, stream: "Stream[object]") -> None:
        """The stream's connection is gone. Harmless when repeated."""
        ...


class Stream(Generic[R_co]):
    """One subscriber; made by a `Publisher`.

    Args:
        first: the reply to the call that subscribes.
        limit: bytes of backlog above which the subscriber is dropped.
    """

    def __init__(self, publisher: Forgets, first: R_co, limit: int) -> None:
        self.first = first
        self._publisher = publisher
        self._limit = limit
        self._backlog: list[bytes] = []
        self._size = 0
        self._news = trio.Event()
        self._error: GantryError | None = None

    def put(self, message: bytes) -> None:
        """Leave a packed message for the subscriber. Cost: O(1), never waits."""
        if self.has_ended:
            return
        self.keep(message)
        if self._size > self._limit:
            self.end_slow()

    def keep(self, message: bytes) -> None:
        """Add a message to the backlog, whatever the limit."""
        self._backlog.append(message)
        self._size += len(message)
        self._news.set()

    @property
    def has_ended(self) -> bool:
        """Whether only the reason of the end is still sent."""
        return self._error is not None

    @property
    def is_full(self) -> bool:
        """Whether the backlog exceeds the limit."""
        return self._size > self._limit

    def end_slow(self) -> None:
        """Drop a subscriber that does not read fast enough."""
        self.end(
            Unavailable(f"this subscriber is too slow: {self._size} bytes wait for it; subscribe again and read faster")
        )

    def end(self, error: GantryError) -> None:
        """Drop the backlog; only the reason is still sent."""
        self._error = error
        self._backlog.clear()
        self._size = 0
        self._news.set()

    async def take(self) -> tuple[bytes, bool]:
        """Wait for data to send; return it, and whether more may follow."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            try:
                more = self._more()
            except GantryError as error:
                self.end(error)
            if self._error is not None:
                return packed(STREAM_ENDED, self._error.code, self._error.message), False
            data = more + b"".join(self._backlog)
            self._backlog.clear()
            self._size = 0
            if data:
                return data, True

    def wake(self) -> None:
        """Let `take` look again."""
        self._news.set()

    def _more(self) -> bytes:
        """Messages that are made only when they are taken; they go before the backlog.

        Raises: GantryError: the stream ends with this error.
        """
        return b""

    def close(self) -> None:
        """Forget a stream whose connection is gone. Harmless when repeated."""
        self._publisher.forget(self)


class Publisher:
    """Sends the same events to every subscriber."""

    def __init__(self, limit: int = BACKLOG_LIMIT) -> None:
        self._limit = limit
        # streams in order of subscription
        self._streams: dict[Stream[object], None] = {}

    def __bool__(self) -> bool:
        """Whether there is a subscriber."""
        return bool(self._streams)

    def subscribe(self, first: R) -> Stream[R]:
        """Make a stream of all events that are published after this call."""
        stream = Stream(self, first, self._limit)
        self._streams[stream] = None
        return stream

    def publish(self, method: str, *params: object) -> None:
        """Send an event to every subscriber. Cost: encoded once, then O(subscribers)."""
        if self._streams:
            message = packed(method, *params)
            for stream in self._streams:
                stream.put(message)

    def forget(self, stream: Stream[object]) -> None:
        self._streams.pop(stream, None)


def packed(method: str, *params: object) -> bytes:
    """The bytes of one notification; parameters may contain `orjson.Fragment`s."""
    return pack(ascii_json({"jsonrpc": "2.0", "method": method, "params": [reply_to_wire(each) for each in params]}))
