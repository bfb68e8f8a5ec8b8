"""Carry out what the machine of keeperd decides, and tell it what has become of that.

Theory. Events come from many tasks into one queue, and are handled one after the other; so are the acts of each
(`mastershipacts.py`). What takes long runs beside. Only what must be durable before the next act is waited for. Times
are by BOOTTIME, also the wait for the next due one: a machine that slept is seen before anything is done.

Source: DESIGN section 14; lease.md 7.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final

import trio

from common.errors import Unavailable
from common.lease.deadline import boottime
from common.system.clocks import BootTimer
from daemons.keeperd.core.events import Act, Due, Event
from daemons.keeperd.core.keeper import Keeper, Me
from daemons.keeperd.core.machine import begin, next_due, step
from daemons.keeperd.looker import Looker
from daemons.keeperd.mastershipacts import MastershipActs, MastershipParts, Tasks

# events that may wait; more would mean that the machine is stuck
_MOST_EVENTS: Final = 10_000
# part of a lease for which an event may be worked at, before the main process counts as hung
_PATIENCE: Final = 0.5


class Shell:
    def __init__(self, me: Me) -> None:
        self._me = me
        self._sender, self._events = trio.open_memory_channel[Event](_MOST_EVENTS)
        # since when an event is worked at, by BOOTTIME; None: none is
        self._busy_since: float | None = None
        self._on_change: list[Callable[[Keeper], None]] = []
        self.keeper: Keeper | None = None
        # set when the keeper is another one than now
        self.changed = trio.Event()
        self.looker = Looker(self.report, lambda: self.keeper)

    def report(self, event: Event) -> None:
        """Tell the machine; from any task of this event loop."""
        self._sender.send_nowait(event)

    @property
    def is_well(self) -> bool:
        """Whether the machine gets on with its events."""
        since = self._busy_since
        return since is None or boottime() - since < _PATIENCE * self._me.ttl_s

    def on_change(self, hear: Callable[[Keeper], None]) -> None:
        """Call this with each new state of keeperd."""
        self._on_change.append(hear)

    async def run(self, parts: MastershipParts) -> None:
        """Until the machine ends. Cancellation: all that is under way ends; daemons of the master end by themselves."""
        timer = BootTimer()
        try:
            async with trio.open_nursery() as nursery:
                self._acts = MastershipActs(parts, Tasks(nursery), self.report, self.looker)
                nursery.start_soon(self._keep_due, timer)
                keeper, acts = begin(self._me, parts.memories.memory, boottime())
                is_over = await self._follow(keeper, acts, timer)
                while not is_over:
                    event = await self._events.receive()
                    self._busy_since = boottime()
                    keeper, acts = step(keeper, event, boottime())
                    is_over = await self._follow(keeper, acts, timer)
                    self._busy_since = None
                nursery.cancel_scope.cancel()
        finally:
            timer.close()

    async def _follow(self, keeper: Keeper, acts: Sequence[Act], timer: BootTimer) -> bool:
        """Carry out the acts that led to this keeper; return whether keeperd is to end."""
        before, self.keeper = self.keeper, keeper
        is_over = False
        for act in acts:
            is_over = await self._acts.carry_out(act, keeper) or is_over
        due = next_due(keeper)
        timer.set(math.inf if due is None else due)
        if keeper is not before:
            for hear in self._on_change:
                hear(keeper)
            self.changed.set()
            self.changed = trio.Event()
        return is_over

    async def _keep_due(self, timer: BootTimer) -> None:
        while True:
            await trio.lowlevel.wait_readable(timer.fileno())
            timer.drain()
            self.report(Due())

    def present(self) -> Keeper:
        """The keeper as it is. Raises: Unavailable: keeperd is just starting."""
        if self.keeper is None:
            raise Unavailable("keeperd is just starting; ask again")
        return self.keeper
