"""A small service, and callers that speak bytes, for the tests of the transport."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import attrs
import orjson
import trio

from common.access import Role
from common.errors import NotFound, OrderViolation
from protocol.framing import ETX, MAX_REPLY, Framer
from protocol.messages import Request
from protocol.peer import Peer
from protocol.serving.route import Handler, Route
from protocol.serving.server import ServerRules, serve_unix
from protocol.serving.service import Service


@attrs.frozen
class Echo(Request[str]):
    METHOD = "echo"
    text: str


@attrs.frozen
class Add(Request[int]):
    METHOD = "add"
    left: int
    right: int = 0


@attrs.frozen
class Repeat(Request[str]):
    METHOD = "repeat"
    text: str
    count: int


@attrs.frozen
class Crash(Request[None]):
    METHOD = "crash"


@attrs.frozen
class Find(Request[None]):
    METHOD = "find"
    name: str


@attrs.frozen
class Order(Request[None]):
    METHOD = "order"


@attrs.frozen
class Hold(Request[str]):
    METHOD = "hold"


@attrs.frozen
class Wait(Request[str]):
    METHOD = "wait"


@attrs.frozen
class Whoami(Request[list[int]]):
    METHOD = "whoami"


class EchoService:
    """Handlers that say what they were asked; `hold` and `wait` end when the test says so.

    What `hold` does is done to its end, `wait` only waits.
    """

    def __init__(self) -> None:
        self.entered = trio.Event()
        self.release = trio.Event()
        self.finished = trio.Event()
        # calls of `wait` in progress, and begun so far
        self.waiting_count = 0
        self.wait_count = 0
        handlers: dict[type[Request[Any]], Handler[Any, Any]] = {
            Echo: self._echo,
            Add: self._add,
            Repeat: self._repeat,
            Crash: self._crash,
            Find: self._find,
            Order: self._order,
            Hold: self._hold,
            Whoami: self._whoami,
        }
        routes = [Route(kind, handler, role=Role.READ) for kind, handler in handlers.items()]
        self.service = Service([*routes, Route(Wait, self._wait, only_waits=True, role=Role.READ)])

    async def _echo(self, request: Echo, peer: Peer) -> str:
        return request.text

    async def _add(self, request: Add, peer: Peer) -> int:
        return request.left + request.right

    async def _repeat(self, request: Repeat, peer: Peer) -> str:
        return request.text * request.count

    async def _crash(self, request: Crash, peer: Peer) -> None:
        raise ZeroDivisionError("secret detail")

    async def _find(self, request: Find, peer: Peer) -> None:
        raise NotFound(f"no such thing '{request.name}'", name=request.name)

    async def _order(self, request: Order, peer: Peer) -> None:
        raise OrderViolation("out of order")

    async def _hold(self, request: Hold, peer: Peer) -> str:
        self.entered.set()
        await self.release.wait()
        self.finished.set()
        return "held"

    async def _wait(self, request: Wait, peer: Peer) -> str:
        self.wait_count += 1
        self.waiting_count += 1
        try:
            await self.release.wait()
        finally:
            self.waiting_count -= 1
        return "waited"

    async def _whoami(self, request: Whoami, peer: Peer) -> list[int]:
        return [peer.pid, peer.uid, peer.gid]


def listening(path: Path) -> socket.socket:
    """A socket at `path` that listens, for servers that a test scripts itself."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)
    return listener


@asynccontextmanager
async def serving(path: Path, service: Service, rules: ServerRules | None = None) -> AsyncIterator[None]:
    """A server at `path` for the time of the block."""
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_unix, path, service, rules or ServerRules())
        yield
        nursery.cancel_scope.cancel()


@contextmanager
def serving_in_thread(path: Path, rules: ServerRules | None = None) -> Iterator[None]:
    """The echo service at `path`, for callers that block this thread."""
    ready = threading.Event()
    stop: list[Any] = []

    async def main() -> None:
        async with serving(path, EchoService().service, rules):
            done = trio.Event()
            token = trio.lowlevel.current_trio_token()
            stop.append(lambda: token.run_sync_soon(done.set))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert ready.wait(30), "the server did not start"
    try:
        yield
    finally:
        stop[0]()
        thread.join()


class RawCaller:
    """A caller that sends the bytes a test gives it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._framer = Framer(MAX_REPLY)
        self._replies: list[bytes] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stream.aclose()

    async def send(self, *messages: bytes) -> None:
        await self.stream.send_all(b"".join(message + ETX for message in messages))

    async def read_raw(self) -> bytes:
        """The next reply; empty when the server closed."""
        while not self._replies:
            data = await self.stream.receive_some(65536)
            if not data:
                return b""
            self._replies += self._framer.feed(data)
        return self._replies.pop(0)

    async def read(self) -> Any:
        """The next reply; None when the server closed."""
        raw = await self.read_raw()
        return orjson.loads(raw) if raw else None

    async def ask(self, message: bytes) -> Any:
        await self.send(message)
        return await self.read()


async def raw_caller(path: Path) -> RawCaller:
    """A new connection to the server at `path`."""
    return RawCaller(await trio.open_unix_socket(str(path)))
