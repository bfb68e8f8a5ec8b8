"""Waiting for news about one key among many: a notice wakes only the listeners of its key."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs
import trio

K = TypeVar("K", bound=Hashable)


@attrs.define(eq=False)
class Broadcast:
    """A source of news about one thing; all its listeners share it."""

    listeners: int = 0
    _notified: trio.Event = attrs.Factory(trio.Event)
    # called at each notice
    calls: list[Callable[[], None]] = attrs.Factory(list)

    @property
    def next_notice(self) -> trio.Event:
        """An event that the next notice sets."""
        return self._notified

    async def wait(self) -> None:
        """Return at the next notice after this call."""
        await self.next_notice.wait()

    def notify(self) -> None:
        notified, self._notified = self._notified, trio.Event()
        notified.set()
        for call in tuple(self.calls):
            call()


async def wait_for_any(*broadcasts: Broadcast) -> None:
    """Return at the next notice of any of these after this call."""

    async def wait(notice: trio.Event) -> None:
        await notice.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        # fix the next notice of each broadcast here: a notice may come before its task begins to wait
        for broadcast in broadcasts:
            nursery.start_soon(wait, broadcast.next_notice)


class Broadcasts(Generic[K]):
    """A broadcast for each key that has listeners.

    Cost: a notice touches only the listeners of its key; keys without listeners take no memory.
    """

    def __init__(self) -> None:
        self._broadcasts: dict[K, Broadcast] = {}

    @contextmanager
    def listen(self, key: K) -> Iterator[Broadcast]:
        """Yield the broadcast of a key. Check the state after entering and before each wait: then nothing is missed."""
        broadcast = self._broadcasts.setdefault(key, Broadcast())
        broadcast.listeners += 1
        try:
            yield broadcast
        finally:
            broadcast.listeners -= 1
            if not broadcast.listeners:
                del self._broadcasts[key]

    def notify(self, key: K) -> None:
        if (broadcast := self._broadcasts.get(key)) is not None:
            broadcast.notify()

    def notify_all(self) -> None:
        for broadcast in list(self._broadcasts.values()):
            broadcast.notify()

    def __len__(self) -> int:
        return len(self._broadcasts)
