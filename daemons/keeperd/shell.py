"""Carry out what the machine of keeperd decides, and tell it what has become of that.

Theory. Events come from many tasks into one queue, and are handled one after the other; so are the acts of each. What
takes long runs beside, in a task for each kind of act, and a later act of its kind, or one that undoes it, cancels it.
Only what must be durable before the next act is waited for. Times are by BOOTTIME, also the wait for the next due one:
a machine that slept is seen before anything is done.

Source: DESIGN section 14; lease.md 7.
"""

import math
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, assert_never

import attrs
import trio

from common.errors import GantryError
from common.lease.deadline import boottime
from common.lease.grant import Grant
from common.lease.records import Accepted, WantedKind
from common.system.boottimer import BootTimer
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.keeperd.addressing import Address
from daemons.keeperd.ailments import Ailments
from daemons.keeperd.core.keeper import Keeper, Me
from daemons.keeperd.core.machine import begin, next_due, step
from daemons.keeperd.core.words import (
    AcceptRestore,
    Act,
    Campaign,
    CampaignLost,
    Drain,
    Drained,
    DrainNoMore,
    DropLease,
    Due,
    End,
    EtcdSilent,
    Event,
    FenceOld,
    KillDaemons,
    Look,
    Looked,
    Memory,
    Release,
    Remember,
    RemoveWanted,
    Renew,
    SetDeadline,
    StartDaemons,
    StopDaemons,
    Tell,
    TellNodes,
)
from daemons.keeperd.draining import Draining
from daemons.keeperd.fenceagents import Fencing
from daemons.keeperd.keys.masterkeys import MasterKeys, Won
from daemons.keeperd.keys.viewing import Viewer
from daemons.keeperd.memories import Memories
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.servants import Servants
from daemons.keeperd.telling import NodeTeller
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import EtcdCorrupt, EtcdError, EtcdUnknown

# events that may wait; more would mean that the machine is stuck
_MOST_EVENTS: Final = 10_000
# part of a lease for which an event may be worked at, before the main process counts as hung
_PATIENCE: Final = 0.5
_log: Final = get_log(__name__)


@attrs.frozen
class Parts:
    """What carries out acts."""

    keys: MasterKeys
    teller: NodeTeller
    servants: Servants
    memories: Memories
    renewer: Renewer
    fencing: Fencing
    address: Address
    draining: Draining
    ailments: Ailments


class Shell:
    def __init__(self, me: Me) -> None:
        self._me = me
        self._sender, self._events = trio.open_memory_channel[Event](_MOST_EVENTS)
        # since when an event is worked at, by BOOTTIME; None: none is
        self._busy_since: float | None = None
        # kind of act -> what ends it
        self._running: dict[str, trio.CancelScope] = {}
        # whether luxid has prepared the move of the mastership
        self._is_drained = False
        # the mastership that was won last
        self._won: Won | None = None
        self._look_again = trio.Event()
        # whether the next look is at another member of etcd than the last one
        self._looks_elsewhere = False
        self._on_change: list[Callable[[Keeper], None]] = []
        self.keeper: Keeper | None = None
        # set when the keeper is another one than now
        self.changed = trio.Event()

    def report(self, event: Event) -> None:
        """Tell the machine; from any task of this event loop."""
        self._sender.send_nowait(event)

    @property
    def is_well(self) -> bool:
        """Whether the machine gets on with its events."""
        since = self._busy_since
        return since is None or boottime() - since < _PATIENCE * self._me.ttl_s

    @property
    def won(self) -> Won | None:
        """The mastership that was won last; the machine says whether it is held."""
        return self._won

    def on_change(self, hear: Callable[[Keeper], None]) -> None:
        """Call this with each new state of keeperd."""
        self._on_change.append(hear)

    async def run(self, parts: Parts) -> None:
        """Until the machine ends. Cancellation: all that is under way ends; daemons of the master end by themselves."""
        timer = BootTimer()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery, self._parts = nursery, parts
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
            is_over = await self._carry_out(act) or is_over
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

    async def _carry_out(self, act: Act) -> bool:
        """Return whether keeperd is to end. Never raises: what fails is told."""
        parts = self._parts
        match act:
            case Look(elsewhere):
                self._looks_elsewhere = elsewhere
                self._look_again.set()
            case Campaign():
                self._begin("campaign", self._campaign, act)
            case Renew(epoch, times):
                if self._won is not None and self._won.fence.epoch == epoch:
                    parts.renewer.renew(epoch, self._won.lease, times, self._won.event.sent_at)
            case SetDeadline(until):
                parts.renewer.hold(self._won.fence.epoch if self._won else 0, until)
            case TellNodes(fence):
                self._begin("tell", parts.teller.tell, fence, self.report)
            case FenceOld(last):
                self._begin("fence", parts.fencing.fence, last, self._won.fence.epoch if self._won else 0)
            case StartDaemons():
                self._start_daemons()
            case Drain(node, kill):
                self._begin("drain", self._drain, node, kill)
            case DrainNoMore():
                self._drain_no_more()
            case StopDaemons():
                self._end_daemons("servants", parts.servants.end)
            case KillDaemons():
                # one that is under way kills all that it finds until nothing is left
                if "kill" not in self._running:
                    self._end_daemons("kill", parts.servants.kill)
            case Release(clean):
                self._release(is_clean=clean)
            case DropLease():
                parts.renewer.renew_no_more()
            case Remember(memory):
                await self._remember(memory)
            case RemoveWanted(wanted, refusal):
                self._begin("wish", self._again, lambda: parts.keys.remove_wanted(wanted, refusal))
            case AcceptRestore(accepted):
                self._begin("accept", self._accept, accepted)
            case Tell(event, fields, is_error):
                (_log.error if is_error else _log.info)(event, **fields)
            case End():
                return True
            case _:
                assert_never(act)
        return False

    async def _remember(self, memory: Memory) -> None:
        try:
            await in_thread(self._parts.memories.store, memory)
        except OSError as error:
            self._parts.ailments.set("memory", f"what keeperd must remember cannot be stored: {error}")
        else:
            self._parts.ailments.set("memory", "")

    # looking

    async def look(self, poll_s: float, viewer: Viewer) -> None:
        """Read etcd when it is asked for, and each `poll_s` seconds; for ever."""
        while True:
            self._look_again = trio.Event()
            elsewhere, self._looks_elsewhere = self._looks_elsewhere, False
            try:
                view = await viewer.look(elsewhere=elsewhere)
            except EtcdError as error:
                _log.warning("etcd.silent", reason=error.message)
                self.report(EtcdSilent(is_corrupt=isinstance(error, EtcdCorrupt)))
            else:
                self.report(Looked(view, jitter=random.random()))
            with trio.move_on_after(poll_s):
                await self._look_again.wait()

    async def watch(self, client: EtcdClient, prefix: str) -> None:
        """Look at once when a key that begins so changes; for ever. A hint only: looks come without it, too."""
        pauses = retry_pauses()
        while True:
            view = self.keeper.view if self.keeper else None
            if view is not None:
                try:
                    async with client.watch(prefix, view.revision) as events:
                        pauses = retry_pauses()
                        async for _ in events:
                            self.look_now()
                except EtcdError as error:
                    _log.debug("watch.ended", prefix=prefix, reason=error.message)
                self.look_now()
            await trio.sleep(next(pauses))

    def look_now(self) -> None:
        """Something has changed in etcd."""
        self._look_again.set()

    # work beside

    def _begin(self, kind: str, work: Callable[..., Awaitable[object]], *args: object) -> None:
        """Do this beside the machine; what is under way of this kind ends."""
        self._end(kind)
        scope = self._running[kind] = trio.CancelScope()
        self._nursery.start_soon(self._work, kind, scope, work, *args)

    def _end(self, kind: str) -> None:
        if (scope := self._running.pop(kind, None)) is not None:
            scope.cancel()

    async def _work(
        self, kind: str, scope: trio.CancelScope, work: Callable[..., Awaitable[object]], *args: object
    ) -> None:
        with scope:
            try:
                await work(*args)
            except (GantryError, OSError) as error:
                reason = error.message if isinstance(error, GantryError) else error
                _log.error("work.failed", work=kind, reason=reason)
        if self._running.get(kind) is scope:
            del self._running[kind]

    async def _campaign(self, act: Campaign) -> None:
        try:
            above = max(act.above, await self._parts.teller.highest_epoch())
            outcome = await self._parts.keys.campaign(above, act.epoch_revision)
        except (GantryError, OSError) as error:
            # whatever fails, the machine hears of the end of its campaign
            outcome = CampaignLost(error.message if isinstance(error, GantryError) else str(error))
        if isinstance(outcome, Won):
            self._won = outcome
            self.report(outcome.event)
        else:
            self.report(outcome)

    def _start_daemons(self) -> None:
        won = self._won
        if won is None:
            return
        for kind in ("servants", "kill"):
            self._end(kind)
        self._drain_no_more()
        self._begin("address", self._parts.address.bring_up)
        view = self.keeper.view if self.keeper else None
        record = won.event.record
        cluster_id = view.cluster_id if view else ""
        held = self.keeper.held if self.keeper else None
        wish = held.wish if held else None
        takes_loss = wish is not None and wish.kind is WantedKind.TAKEOVER and wish.node == record.node
        grant = Grant(record.node, record.nonce, won.fence, cluster_id, record.ttl_s, takes_loss)
        self._begin("servants", self._parts.servants.start, grant)

    def _end_daemons(self, kind: str, end: Callable[[int], Awaitable[None]]) -> None:
        # only who holds the mastership may tell nodes, and have an old master fenced
        for other in ("tell", "fence", "servants", "kill"):
            self._end(other)
        if not self._is_drained:
            self._end("drain")
        self._begin("address", self._parts.address.take_down)
        self._begin(kind, end, self.keeper.started_epoch if self.keeper else 0)

    def _release(self, *, is_clean: bool) -> None:
        for kind in ("tell", "fence"):
            self._end(kind)
        self._drain_no_more()
        self._parts.renewer.renew_no_more()
        self._parts.renewer.close_watchdog()
        won, self._won = self._won, None
        if won is not None:
            # also while keeperd ends
            self._nursery.start_soon(self._release_keys, won, is_clean)

    async def _release_keys(self, won: Won, is_clean: bool) -> None:
        with trio.CancelScope(shield=True):
            await self._parts.keys.release(won, is_clean=is_clean)
        self.look_now()

    async def _drain(self, node: str, kill: bool) -> None:
        won = self._won
        if won is not None:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(self._parts.draining.hold, kill=kill))
                await self._again(lambda: self._parts.keys.mark_leaving(won, node))
                # the call goes on until luxid has ended: else it would take work again
                self._is_drained = True
                self.report(Drained(won.fence.epoch))

    def _drain_no_more(self) -> None:
        """End the call of luxid; one that lives takes work again."""
        self._is_drained = False
        self._end("drain")

    async def _again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Try until etcd has taken or refused it."""
        for pause_s in retry_pauses():
            try:
                await work()
                return
            except EtcdUnknown as error:
                _log.warning("etcd.silent", reason=error.message, going_on="again until it replies")
            await trio.sleep(pause_s)

    async def _accept(self, accepted: Accepted) -> None:
        await self._again(lambda: self._parts.keys.accept(accepted))
        self.look_now()
