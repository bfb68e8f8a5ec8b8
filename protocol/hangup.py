"""Noticing that a peer has hung up while its call is being carried out, without reading from its connection.

Theory. Reading would be the wrong question: pipelined calls lie in the socket and keep it readable, and a
peer that has only ended what it says (`socat`, `nc`) still wants its reply. The kernel tells the cases
apart: of a Unix socket it reports EPOLLHUP once both directions are shut, as by the death of the peer or its
close(), and not at the end of its sending side. epoll reports EPOLLHUP always, also when nothing else is
asked for. So all connections of a server are in one epoll of their own that asks for nothing; arriving data
does not wake it, and one task waits for all. A connection is put into it by its first call that waits, once;
so a waiter costs neither a task nor, after the first, a system call.

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
    """The peer hung up, so that nobody waits for the answer any more."""


class HangUps:
    """The connections of one server whose end is to be noticed; close it after all of them."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        # descriptor -> its line
        self._lines: dict[int, Line] = {}

    def __len__(self) -> int:
        """How many are watched."""
        return len(self._lines)

    async def run(self) -> None:
        """Tell the lines, until cancelled."""
        while True:
            await trio.lowlevel.wait_readable(self._epoll)
            # no checkpoint between the poll and the look-ups: a descriptor still means the same connection
            for fd, _ in self._epoll.poll(0):
                self._lines[fd].hang_up()

    def close(self) -> None:
        self._epoll.close()

    def add(self, fd: int, line: "Line") -> None:
        # edge-triggered: told once, also to a line that no call waits on at that moment
        self._epoll.register(fd, select.EPOLLET)
        self._lines[fd] = line

    def remove(self, fd: int) -> None:
        del self._lines[fd]
        self._epoll.unregister(fd)


class Line:
    """One connection, for whoever waits on behalf of its peer; close it before the socket."""

    def __init__(self, sock: socket.socket, hang_ups: HangUps) -> None:
        self._fd = sock.fileno()
        self._hang_ups = hang_ups
        self._is_watched = False
        self._is_gone = False
        # of the call that waits
        self._scope: trio.CancelScope | None = None

    async def while_connected(self, wait: Callable[[], Awaitable[R]]) -> R:
        """Carry this out, unless the peer hangs up; one at a time.

        Raises: CallerGone: it was cancelled.
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
        """The peer has gone."""
        self._is_gone = True
        if self._scope is not None:
            self._scope.cancel()

    def close(self) -> None:
        """Forget the connection; harmless when repeated."""
        if self._is_watched:
            self._hang_ups.remove(self._fd)
            self._is_watched = False
