"""Waiting for news about one key among many: a ring wakes only the listeners of its key."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import attrs
import trio

K = TypeVar("K", bound=Hashable)


@attrs.define(eq=False)
class Bell:
    """A source of news about one thing; all its listeners share it."""

    listeners: int = 0
    _rung: trio.Event = attrs.Factory(trio.Event)
    # called at each ring
    calls: list[Callable[[], None]] = attrs.Factory(list)

    @property
    def next_ring(self) -> trio.Event:
        """An event that the next ring sets."""
        return self._rung

    async def wait(self) -> None:
        """Return at the next ring after this call."""
        await self.next_ring.wait()

    def ring(self) -> None:
        rung, self._rung = self._rung, trio.Event()
        rung.set()
        for call in tuple(self.calls):
            call()


async def wait_for_any(*bells: Bell) -> None:
    """Return at the next ring of any of these after this call."""

    async def wait(ring: trio.Event) -> None:
        await ring.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        # fix the next ring of each bell here: a ring may come before its task begins to wait
        for bell in bells:
            nursery.start_soon(wait, bell.next_ring)


class Bells(Generic[K]):
    """A bell for each key that has listeners.

    Cost: a ring touches only the listeners of its key; keys without listeners take no memory.
    """

    def __init__(self) -> None:
        self._bells: dict[K, Bell] = {}

    @contextmanager
    def listen(self, key: K) -> Iterator[Bell]:
        """Yield the bell of a key. Check the state after entering and before each wait: then nothing is missed."""
        bell = self._bells.setdefault(key, Bell())
        bell.listeners += 1
        try:
            yield bell
        finally:
            bell.listeners -= 1
            if not bell.listeners:
                del self._bells[key]

    def ring(self, key: K) -> None:
        if (bell := self._bells.get(key)) is not None:
            bell.ring()

    def ring_all(self) -> None:
        for bell in list(self._bells.values()):
            bell.ring()

    def __len__(self) -> int:
        return len(self._bells)
