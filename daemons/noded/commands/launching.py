"""Runners from noded's side: the fork server is started with the first command, and again when it has died.

Theory. An order has one word as its reply, or the end of the pipe, which proves that no runner is about to begin any
more. In both cases the records tell what has become of the command; so nothing here needs to be remembered.

Source: DESIGN section 13; daemons.noded.commands.runnermessages.
"""

import contextlib
import itertools
import os
import socket
import subprocess
from typing import Final

import attrs
import trio

from common.errors import Unavailable, reason_of
from common.settings import Settings
from common.system.daemon import take_back_limit
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.processes import python_command, python_environment
from daemons.noded.commands.runnermessages import RunnerOrder, RunnerWord, pack_order, read_word
from protocol.framing import pack

_MODULE: Final = "daemons.noded.commands.forking"
_CHUNK: Final = 64 * 2**10
_log: Final = get_log(__name__)


@attrs.define(eq=False)
class _Awaited:
    """The word on an order."""

    said: trio.Event = attrs.Factory(trio.Event)
    word: RunnerWord | None = None


class _ForkServer:
    """A running fork server."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, reports: int) -> None:
        self.process = process
        self._control = trio.SocketStream(trio.socket.from_stdlib_socket(control))
        self._reports = trio.lowlevel.FdStream(reports)
        self._awaited: dict[int, _Awaited] = {}
        self._turn = trio.Lock()
        # it takes no more orders
        self.is_lost = False

    async def order(self, order: RunnerOrder) -> RunnerWord | None:
        """Send an order; return the word on it; None: no runner of this fork server begins it any more.

        Cancellation: the order may be carried out; if only a part of it was sent, no further ones are taken.
        """
        awaited = self._awaited[order.number] = _Awaited()
        try:
            async with self._turn:
                await self._send(pack(pack_order(order)))
            await awaited.said.wait()
            return awaited.word
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # it has not read the whole order, or has died before that was sent
            self.is_lost = True
            return None
        finally:
            del self._awaited[order.number]

    async def _send(self, message: bytes) -> None:
        try:
            await self._control.send_all(message)
        except trio.Cancelled:
            # whatever followed a part of a message could not be read: it ends, as when noded has gone
            self.is_lost = True
            self._control.socket.close()
            raise

    async def listen(self) -> None:
        """Take the words until there can be no more."""
        rest = b""
        try:
            while data := await self._reports.receive_some(_CHUNK):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._take(read_word(line))
        finally:
            self.is_lost = True
            for awaited in self._awaited.values():
                awaited.said.set()
            with trio.CancelScope(shield=True):
                await self._control.aclose()
                await self._reports.aclose()

    def _take(self, word: RunnerWord) -> None:
        awaited = self._awaited.get(word.number)
        if awaited is not None and awaited.word is None:
            awaited.word = word
            awaited.said.set()


class RunnerLauncher:
    """Asks for runners."""

    def __init__(self, settings: Settings, nursery: trio.Nursery) -> None:
        self._settings = settings
        self._nursery = nursery
        self._server: _ForkServer | None = None
        self._turn = trio.Lock()
        self._numbers = itertools.count(1)

    def number(self) -> int:
        """A number for a new order."""
        return next(self._numbers)

    async def launch(self, order: RunnerOrder) -> RunnerWord | None:
        """Ask for a runner; None: the fork server died, and no runner begins it any more.

        Raises: Unavailable: no fork server can be started.
        """
        async with self._turn:
            if self._server is None or self._server.is_lost:
                self._server = await self._start()
            server = self._server
        return await server.order(order)

    async def _start(self) -> _ForkServer:
        try:
            process, control, reports = await in_thread(_start_process, self._settings)
        except OSError as error:
            reason = reason_of(error)
            raise Unavailable(f"no process for commands can be started on this node: {reason}; try again") from error
        server = _ForkServer(process, control, reports)
        self._nursery.start_soon(self._attend, server)
        return server

    async def _attend(self, server: _ForkServer) -> None:
        await server.listen()
        code = await in_thread(server.process.wait)
        _log.warning("commands.fork_server_ended", exit_code=code, next="the next command starts another")


def _start_process(settings: Settings) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Raises: OSError."""
    place = [] if settings.root is None else ["--root", str(settings.root)]
    with contextlib.ExitStack() as stack:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        stack.callback(theirs.close)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(ours.close)
            reader, writer = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, writer)
            on_failure.callback(os.close, reader)
            fds = ["--control", str(theirs.fileno()), "--reports", str(writer)]
            process = subprocess.Popen(
                python_command(_MODULE, *place, *fds),
                env=python_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(), writer),
            )
            on_failure.pop_all()
    take_back_limit(process.pid)
    return process, ours, reader
