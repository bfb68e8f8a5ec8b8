"""The requests under way: how many there are, and those that end when the daemon is told to stop."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from protocol.http.connections import Connections


class Load:
    """For one event loop."""

    def __init__(self) -> None:
        # requests under way
        self.requests = 0
        self._listeners: tuple[Connections, ...] = ()
        # scopes of those that only wait, or whose reply is a stream
        self._waiting: set[trio.CancelScope] = set()
        self._is_stopping = False

    @property
    def waiting(self) -> int:
        """How many requests only wait, or have a stream as their reply."""
        return len(self._waiting)

    @property
    def connections(self) -> int:
        """How many connections of clients there are."""
        return sum(each.open for each in self._listeners)

    def watch(self, *listeners: Connections) -> None:
        """Count the connections of these, too."""
        self._listeners = listeners

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while the context lasts."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def wait(self) -> Iterator[trio.CancelScope]:
        """A scope that is cancelled when the daemon is told to stop, or this node is not the master any more."""
        with trio.CancelScope() as scope:
            if self._is_stopping:
                scope.cancel()
            self._waiting.add(scope)
            try:
                yield scope
            finally:
                self._waiting.discard(scope)

    def stop(self) -> None:
        """End the requests that wait, now and later."""
        self._is_stopping = True
        self.end_waits()

    def end_waits(self) -> None:
        """End the requests that wait now."""
        for scope in self._waiting:
            scope.cancel()
