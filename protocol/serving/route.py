"""A row of a daemon's table: a method, its request class, its handler, and the role that a caller needs; and streams.

A caller that reads its stream too slowly is dropped: `Stream.put`.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar, Union, cast

import attrs
import orjson
import trio

from common.access import Role
from common.errors import GantryError, Unavailable
from common.jsontext import ascii_json
from common.wire import unstructure
from protocol.envelope import STREAM_ENDED
from protocol.framing import pack
from protocol.messages import AnyRequest, structure_request
from protocol.peer import Peer

# A reply that is made while it is sent, piece by piece, so that a large one is never in memory as a whole.
#
# A handler returns it in place of a value. A reply that fits into AT_ONCE_BYTES is sent like any other. For a larger
# one each piece is made when the peer has taken the piece before. A failure within the first AT_ONCE_BYTES becomes an
# ordinary error; a later one can only end the connection in the middle of the reply.
#
# Source: DESIGN section 4.


AT_ONCE_BYTES: Final = 256 * 2**10


def _no_notes() -> list[str]:
    return []


R = TypeVar("R")


@attrs.frozen
class Pieces(Generic[R]):
    """A reply `R` as JSON text in ASCII, whole when all pieces are joined."""

    pieces: AsyncGenerator[bytes, None]
    # function that returns notes for the caller; called when the last piece has been made
    notes: Callable[[], list[str]] = _no_notes


async def take(pieces: AsyncGenerator[bytes, None], limit: int) -> tuple[bytes, bool]:
    """Join pieces until they exceed `limit` bytes; return them, and whether they are all."""
    taken: list[bytes] = []
    size = 0
    async for piece in pieces:
        taken.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(taken), False
    return b"".join(taken), True


# Events on a connection: a reply after which the daemon continues to send.
#
# Theory. A handler may return a `Stream`: the server sends its first reply like any other, and
# from then on published events as notifications of JSON-RPC 2.0, until one of the two hangs up. A
# publisher never waits for its subscribers. The events that a subscriber has not taken are its backlog. When the
# backlog exceeds a limit, the subscriber has missed too much: it is told so, and its connection is closed. It
# connects again, and begins anew with a first reply.
#
# An event that is published between the making of the first reply and its sending is in the backlog:
# nothing is missed, and nothing comes twice.
#
# Source: DESIGN section 8; JSON-RPC 2.0, section 4.1.


BACKLOG_LIMIT: Final = 16 * 2**20


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
    """Sends the same events to every subscriber.

    Args:
        before: called before an event is sent, and before a stream is made; it may publish what it has gathered.
    """

    def __init__(self, before: Callable[[], None] = lambda: None, limit: int = BACKLOG_LIMIT) -> None:
        self._before = before
        self._limit = limit
        # streams in order of subscription
        self._streams: dict[Stream[object], None] = {}

    def __bool__(self) -> bool:
        """Whether there is a subscriber."""
        return bool(self._streams)

    def subscribe(self, first: R) -> Stream[R]:
        """Make a stream of all events that are published after this call."""
        self._before()
        stream = Stream(self, first, self._limit)
        self._streams[stream] = None
        return stream

    def publish(self, method: str, *params: object) -> None:
        """Send an event to every subscriber. Cost: encoded once, then O(subscribers)."""
        if self._streams:
            self._before()
            message = packed(method, *params)
            for stream in self._streams:
                stream.put(message)

    def forget(self, stream: Stream[object]) -> None:
        self._streams.pop(stream, None)


def packed(method: str, *params: object) -> bytes:
    """The bytes of one notification; parameters may contain `orjson.Fragment`s."""
    return pack(ascii_json({"jsonrpc": "2.0", "method": method, "params": [unstructure(each) for each in params]}))


Q = TypeVar("Q", bound=AnyRequest)

Q_co = TypeVar("Q_co", bound=AnyRequest, covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)
# result of a handler: the reply, also as encoded JSON; a `Stream` takes over the connection, `Pieces` are
# made while they are sent
Reply = Union[R, Pieces[R], Stream[R], orjson.Fragment]  # noqa: UP007  # mypy wants it so for a type variable
Handler = Callable[[Q, Peer], Awaitable[Reply[R]]]


class RequestClass(Protocol[Q_co, R_contra]):
    """The class of a request, reduced to its input and output."""

    @property
    def METHOD(self) -> str: ...  # a constant of the classes

    def __call__(self, *args: Any, **kwargs: Any) -> Q_co: ...

    def write_reply(self, reply: R_contra) -> object: ...


class AnyRoute(Protocol):
    """A row of a daemon's table, for any method.

    A table is a list of these instead of `Route[Any, Any]`, which would accept any handler for any request.
    """

    @property
    def method(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def only_waits(self) -> bool: ...

    def read(self, params: Sequence[object] | Mapping[str, object]) -> AnyRequest:
        """Make the request from these arguments. Raises: InvalidRequest."""
        ...

    def carry_out(self, call: AnyRequest, peer: Peer) -> Awaitable[object]:
        """Call the handler with a request made by `read`."""
        ...

    def after(self, check: Callable[[AnyRequest], Awaitable[None]]) -> "AnyRoute":
        """The same route, but with `check` called first: its exception becomes the reply."""
        ...


@attrs.frozen
class Route(Generic[Q, R]):
    """One method: its request class, its handler, and the role that a caller needs.

    mypy refuses a handler that takes another request than the class, or returns another reply.
    """

    kind: RequestClass[Q, R]
    handler: Handler[Q, R]
    role: Role = attrs.field(kw_only=True)
    # whether the call changes nothing and may last long: then it is cancelled when its caller hangs up
    only_waits: bool = attrs.field(default=False, kw_only=True)

    @property
    def method(self) -> str:
        return self.kind.METHOD

    # only refusals tell it, and each call would make it
    @cached_property
    def title(self) -> str:
        """`SetDrainFlag (close or open the queue to new jobs)`: the method, and what its class says of it."""
        about = inspect.cleandoc(vars(self.kind).get("__doc__") or "").partition("\n")[0].partition(". ")[0]
        about = about.partition(";")[0].rstrip(".")
        return f"{self.method} ({about[:1].lower()}{about[1:]})" if about else self.method

    def read(self, params: Sequence[object] | Mapping[str, object]) -> AnyRequest:
        return structure_request(cast(type[AnyRequest], self.kind), params)

    def carry_out(self, call: AnyRequest, peer: Peer) -> Awaitable[object]:
        return self.handler(cast(Q, call), peer)

    def after(self, check: Callable[[AnyRequest], Awaitable[None]]) -> AnyRoute:
        async def handler(call: Q, peer: Peer) -> Reply[R]:
            await check(call)
            return await self.handler(call, peer)

        return attrs.evolve(self, handler=handler)
