"""A bad network between a master and a node: a proxy that stops, delays, resets, loses replies, or answers garbage.

with Proxy(("127.0.0.2", port), ("127.0.1.2", port)) as proxy:
    proxy.behave(Behaviour.STOP)
"""

import enum
import random
import socket
import struct
import threading
from functools import partial
from types import TracebackType
from typing import Final, Self

import trio

# (address, port)
Place = tuple[str, int]
_CHUNK: Final = 65536
_DELAY_S: Final = 0.3
# resets a connection when it is closed
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_BEGIN_S: Final = 30.0


class Behaviour(enum.Enum):
    """What becomes of bytes; a change concerns open connections, too."""

    PASS = "pass"
    # connections stay open, and nothing arrives
    STOP = "stop"
    # each chunk arrives late
    DELAY = "delay"
    # connections are reset, also new ones
    RESET = "reset"
    # whoever sends anything gets random bytes, and the connection is closed
    GARBAGE = "garbage"
    # what is sent arrives, and the replies are lost
    HALF = "half"


class Proxy:
    """Passes connections on; a context manager, whose work is done in a thread of its own.

    Args: listens: port 0: any that is free, see `place`.
    """

    def __init__(self, listens: Place, target: Place, seed: int = 0) -> None:
        self._target = target
        self._chance = random.Random(seed)
        self._behaviour = Behaviour.PASS
        self._listener = socket.create_server(listens)
        self.place: Place = self._listener.getsockname()
        # connections that were taken, in whatever way
        self.taken = 0
        # bytes of requests that wait until it stops no longer
        self.held = 0
        self._changed = trio.Event()
        self._connections: set[trio.SocketStream] = set()
        self._has_begun = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(target=trio.run, args=(self._serve,))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._has_begun.wait(_BEGIN_S), "the proxy has not begun"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    def behave(self, behaviour: Behaviour) -> None:
        """Behave so from now on; what comes after this call finds it so."""
        assert self._token is not None
        has_become = threading.Event()
        self._token.run_sync_soon(self._become, behaviour, has_become)
        assert has_become.wait(_BEGIN_S), "the proxy does not answer"

    def _become(self, behaviour: Behaviour, has_become: threading.Event) -> None:
        self._behaviour = behaviour
        has_become.set()
        self._changed.set()
        self._changed = trio.Event()
        if behaviour is Behaviour.RESET:
            for stream in self._connections:
                _reset(stream)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(_unblocked(self._listener)))
            self._has_begun.set()
            await trio.serve_listeners(self._pass_on, [listener])

    async def _pass_on(self, client: trio.SocketStream) -> None:
        self.taken += 1
        if self._behaviour is Behaviour.RESET:
            _reset(client)
            return
        try:
            server = await trio.open_tcp_stream(*self._target)
        except OSError:
            # nobody listens there: the master shall see the same
            _reset(client)
            return
        streams = {client, server}
        self._connections |= streams
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._copy, client, server, nursery.cancel_scope)
                nursery.start_soon(partial(self._copy, is_reply=True), server, client, nursery.cancel_scope)
        finally:
            self._connections -= streams
            for stream in streams:
                # no checkpoint: the second one is closed even while the proxy ends
                stream.socket.close()

    async def _copy(
        self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope, *, is_reply: bool = False
    ) -> None:
        try:
            while data := await source.receive_some(_CHUNK):
                if self._behaviour is Behaviour.STOP:
                    await self._hold(0 if is_reply else len(data))
                if self._behaviour is Behaviour.GARBAGE:
                    await source.send_all(self._chance.randbytes(len(data)))
                    break
                if self._behaviour is Behaviour.HALF and is_reply:
                    continue
                if self._behaviour is Behaviour.DELAY:
                    await trio.sleep(_DELAY_S)
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    async def _hold(self, size: int) -> None:
        self.held += size
        try:
            while self._behaviour is Behaviour.STOP:
                await self._changed.wait()
        finally:
            self.held -= size


def _reset(stream: trio.SocketStream) -> None:
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    stream.socket.close()


def _unblocked(listener: socket.socket) -> socket.socket:
    listener.setblocking(False)
    return listener
