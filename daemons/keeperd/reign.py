"""The mastership of this node, from its campaign to the release of its key: the acts that concern it.

Theory. What takes long runs beside the machine, in a task for each kind of act; a later act of its kind, or one that
undoes it, ends it.

Source: DESIGN section 14; lease.md 7.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import attrs
import trio

from common.errors import GantryError
from common.lease.grant import Grant
from common.lease.records import Accepted, LastMaster, Wanted, WantedKind
from common.lease.times import Times
from common.system.log import get_log
from common.system.retrypauses import retry_pauses
from daemons.keeperd.addressing import Address
from daemons.keeperd.ailments import Ailments
from daemons.keeperd.core.acts import Campaign
from daemons.keeperd.core.events import CampaignLost, Drained, Event
from daemons.keeperd.core.keeper import Keeper
from daemons.keeperd.draining import Draining
from daemons.keeperd.fenceagents import Fencing
from daemons.keeperd.keys.masterkeys import MasterKeys, Won
from daemons.keeperd.memories import Memories
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.servants import Servants
from daemons.keeperd.tasks import Tasks
from daemons.keeperd.telling import NodeTeller
from protocol.etcd.errors import EtcdError

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


class Reign:
    """Args: report: tells the machine. look_now: says that something has changed in etcd."""

    def __init__(
        self, parts: Parts, tasks: Tasks, report: Callable[[Event], None], look_now: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._tasks = tasks
        self._report = report
        self._look_now = look_now
        # the mastership that was won last; the machine says whether it is held
        self._won: Won | None = None
        # whether luxid has prepared the move of the mastership
        self._is_drained = False

    @property
    def epoch(self) -> int:
        """Of the mastership that was won last and is not released; 0: there is none."""
        return self._won.fence.epoch if self._won else 0

    async def campaign(self, act: Campaign) -> None:
        try:
            above = max(act.above, await self._parts.teller.highest_epoch())
            outcome = await self._parts.keys.campaign(above, act.epoch_revision)
        except (GantryError, OSError) as error:
            # whatever fails, the machine hears of the end of its campaign
            outcome = CampaignLost(error.message if isinstance(error, GantryError) else str(error))
        if isinstance(outcome, Won):
            self._won = outcome
            self._report(outcome.event)
        else:
            self._report(outcome)

    def renew(self, epoch: int, times: Times) -> None:
        if self._won is not None and self._won.fence.epoch == epoch:
            self._parts.renewer.renew(epoch, self._won.lease, times, self._won.event.sent_at)

    def fence_old(self, last: LastMaster) -> None:
        self._tasks.begin("fence", self._parts.fencing.fence, last, self.epoch)

    def start_daemons(self, keeper: Keeper | None) -> None:
        won = self._won
        if won is None:
            return
        self._tasks.end("servants", "kill")
        self.drain_no_more()
        self._tasks.begin("address", self._parts.address.bring_up)
        view = keeper.view if keeper else None
        record = won.event.record
        cluster_id = view.cluster_id if view else ""
        held = keeper.held if keeper else None
        wish = held.wish if held else None
        takes_loss = wish is not None and wish.kind is WantedKind.TAKEOVER and wish.node == record.node
        grant = Grant(record.node, record.nonce, won.fence, cluster_id, record.ttl_s, takes_loss)
        self._tasks.begin("servants", self._parts.servants.start, grant)

    def stop_daemons(self, epoch: int) -> None:
        """Args: epoch: of the last start of the daemons, which is told when none is left."""
        self._end_daemons("servants", self._parts.servants.end, epoch)

    def kill_daemons(self, epoch: int) -> None:
        # one that is under way kills all that it finds until nothing is left
        if not self._tasks.runs("kill"):
            self._end_daemons("kill", self._parts.servants.kill, epoch)

    def drain(self, node: str, *, kill: bool) -> None:
        self._tasks.begin("drain", self._drain, node, kill)

    def drain_no_more(self) -> None:
        """End the call of luxid; one that lives takes work again."""
        self._is_drained = False
        self._tasks.end("drain")

    def release(self, *, is_clean: bool) -> None:
        self._tasks.end("tell", "fence")
        self.drain_no_more()
        self._parts.renewer.renew_no_more()
        self._parts.renewer.close_watchdog()
        won, self._won = self._won, None
        if won is not None:
            self._tasks.finish(self._release_keys, won, is_clean)

    def remove_wanted(self, wanted: Wanted, refusal: str) -> None:
        self._tasks.begin("wish", self._again, lambda: self._parts.keys.remove_wanted(wanted, refusal))

    def accept(self, accepted: Accepted) -> None:
        self._tasks.begin("accept", self._accept, accepted)

    def _end_daemons(self, kind: str, end: Callable[[int], Awaitable[None]], epoch: int) -> None:
        # only who holds the mastership may tell nodes, and have an old master fenced
        self._tasks.end("tell", "fence", "servants", "kill")
        if not self._is_drained:
            self._tasks.end("drain")
        self._tasks.begin("address", self._parts.address.take_down)
        self._tasks.begin(kind, end, epoch)

    async def _release_keys(self, won: Won, is_clean: bool) -> None:
        await self._parts.keys.release(won, is_clean=is_clean)
        self._look_now()

    async def _drain(self, node: str, kill: bool) -> None:
        won = self._won
        if won is None:
            return
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(self._parts.draining.hold, kill=kill))
                await self._again(lambda: self._parts.keys.mark_leaving(won, node))
                # the call goes on until luxid has ended: else it would take work again
                self._is_drained = True
                self._report(Drained(won.fence.epoch))
        except* GantryError as failed:
            _log.error(
                "master.not_drained", reason=failed.exceptions[0], effect="the wish stays until it is taken back"
            )

    async def _again(self, work: Callable[[], Awaitable[object]]) -> None:
        """Try until etcd has taken it: a full etcd, or one that denies it, ends neither a move nor keeperd."""
        for pause_s in retry_pauses():
            try:
                await work()
                return
            except EtcdError as error:
                _log.warning("etcd.not_written", reason=error.message, going_on="again until it is")
            await trio.sleep(pause_s)

    async def _accept(self, accepted: Accepted) -> None:
        await self._again(lambda: self._parts.keys.accept(accepted))
        self._look_now()
