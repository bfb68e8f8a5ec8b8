"""Notice that a peer has hung up while its call is carried out, without reading from its connection.

Theory. Reading would not tell: pipelined calls lie in the socket and keep it readable, and a
peer that has only shut down its sending side (`socat`, `nc`) still wants its reply. The kernel tells the cases
apart: for a Unix socket it reports EPOLLHUP when both directions are shut, as by the death of the peer or its
close(), but not when only the sending side is shut. epoll always reports EPOLLHUP, even if no event is
requested. So all connections of a server are in one epoll of their own that requests no events; arriving data
does not wake it, and one task waits for all. A connection is added by its first call that waits, once;
so a waiter costs no task, and only the first one costs a system call.

Source: epoll_ctl(2), `EPOLLHUP`; unix(7); DESIGN section 4.
"""

import contextlib
import select
import socket
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

R = TypeVar("R")


class CallerGone(Exception):
    """The peer hung up, so the reply has no reader."""


class HangUps:
    """The connections of one server whose hang-up is to be noticed; close it after all of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        # descriptor -> its line
        self._lines: dict[int, Line] = {}

    def __len__(self) -> int:
        """The number of watched connections."""
        return len(self._lines)

    async def run(self) -> None:
        """Report hang-ups to the lines, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll)
            # no checkpoint between the poll and the look-ups: a descriptor still means the same connection
            for fd, _ in self._epoll.poll(0):
                self._lines[fd].hang_up()

    def close(self) -> None:
        self._epoll.close()

    def add(self, fd: int, line: "Line") -> None:
        # edge-triggered: reported once, also to a line without a waiting call at that moment
        self._epoll.register(fd, select.EPOLLET)
        self._lines[fd] = line

    def remove(self, fd: int) -> None:
        del self._lines[fd]
        self._epoll.unregister(fd)


class Line:
    """One connection, for a call that waits on behalf of its peer; close it before the socket."""

    def __init__(self, sock: socket.socket, hang_ups: HangUps) -> None:
        self._fd = sock.fileno()
        self._hang_ups = hang_ups
        self._is_watched = False
        self._is_gone = False
        # cancel scope of the waiting call
        self._scope: trio.CancelScope | None = None

    async def while_connected(self, wait: Callable[[], Awaitable[R]]) -> R:
        """Run `wait`, unless the peer hangs up; one at a time.

        Raises: CallerGone: `wait` was cancelled, because the peer hung up.
        """
        if not self._is_watched:
            self._hang_ups.add(self._fd, self)
            self._is_watched = True
        with trio.CancelScope() as self._scope:
            if self._is_gone:
                self._scope.cancel()
            try:
                return await wait()
            finally:
                self._scope = None
        raise CallerGone

    async def hung_up(self) -> None:
        """Wait until the peer has hung up."""
        with contextlib.suppress(CallerGone):
            await self.while_connected(trio.sleep_forever)

    def hang_up(self) -> None:
        """Record that the peer has gone."""
        self._is_gone = True
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        """Forget the connection; harmless when repeated."""
        if self._is_watched:
            self._hang_ups.remove(self._fd)
            self._is_watched = False
