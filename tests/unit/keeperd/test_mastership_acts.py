"""What fails in an act ends neither keeperd nor the story. Source: `daemons/keeperd/mastershipacts.py`."""

from types import SimpleNamespace
from typing import cast

import pytest
import trio

from common.errors import GantryError, UnknownMethod
from common.lease.records import Fence, MasterRecord
from daemons.keeperd.core.events import Campaign, CampaignLost, CampaignWon, Drained, Event
from daemons.keeperd.keys import Won
from daemons.keeperd.looker import Looker
from daemons.keeperd.mastershipacts import MastershipActs, MastershipParts, Tasks
from protocol.etcd.kv import EtcdDenied, EtcdError, EtcdFull, EtcdUnknown

WON = Won(CampaignWon(Fence(7, 1, 1), MasterRecord(node="n1", nonce="x", epoch=7, ttl_s=10.0), 0.0), 1)


class NamelessNodes:
    """The file with the addresses of the nodes cannot be read."""

    async def highest_epoch(self) -> int:
        raise PermissionError("the addresses of the nodes cannot be read")


def test_campaign_that_fails_by_itself_is_a_lost_one() -> None:
    heard: list[Event] = []

    async def campaign() -> None:
        async with trio.open_nursery() as nursery:
            parts = cast(MastershipParts, SimpleNamespace(teller=NamelessNodes()))
            acts = MastershipActs(parts, Tasks(nursery), heard.append, cast(Looker, None))
            await acts.campaign(Campaign(above=0, epoch_revision=0))

    trio.run(campaign)

    assert heard == [CampaignLost("the addresses of the nodes cannot be read")]


class Keys:
    """The campaign is won; etcd refuses the mark of a master that leaves at first."""

    def __init__(self, *refusals: EtcdError) -> None:
        self._refusals = list(refusals)
        self.marked: list[str] = []

    async def campaign(self, above: int, epoch_revision: int) -> Won:
        await trio.lowlevel.checkpoint()
        return WON

    async def mark_leaving(self, won: Won, node: str) -> bool:
        await trio.lowlevel.checkpoint()
        if self._refusals:
            raise self._refusals.pop(0)
        self.marked.append(node)
        return True


class Draining:
    def __init__(self, failure: GantryError | None = None) -> None:
        self._failure = failure

    async def hold(self, *, kill: bool, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        await trio.lowlevel.checkpoint()
        if self._failure is not None:
            raise self._failure
        task_status.started()
        await trio.sleep_forever()


class Nodes:
    async def highest_epoch(self) -> int:
        return 0


async def drained(keys: Keys, draining: Draining) -> list[Event]:
    """What the machine hears in an hour after it has asked to make way."""
    heard: list[Event] = []
    async with trio.open_nursery() as nursery:
        parts = cast(MastershipParts, SimpleNamespace(teller=Nodes(), keys=keys, draining=draining))
        acts = MastershipActs(parts, Tasks(nursery), heard.append, cast(Looker, None))
        await acts.campaign(Campaign(above=6, epoch_revision=1))
        acts.drain("n2", kill=False)
        await trio.sleep(3600)
        nursery.cancel_scope.cancel()
    return heard[1:]


@pytest.mark.trio
async def test_a_mark_that_etcd_refuses_for_a_while_is_made_again(autojump_clock: trio.testing.MockClock) -> None:
    keys = Keys(EtcdFull("no space"), EtcdUnknown("no reply"), EtcdDenied("no right"))

    assert await drained(keys, Draining()) == [Drained(7)]
    assert keys.marked == ["n2"]


@pytest.mark.trio
async def test_a_luxid_that_cannot_drain_does_not_end_keeperd(autojump_clock: trio.testing.MockClock) -> None:
    assert await drained(Keys(), Draining(UnknownMethod("PrepareMove"))) == []
