"""What keeperd does in etcd: campaigns, releases, requests, its record as a member (lease.md 2, 4 and 7)."""

from collections.abc import Awaitable, Callable
from typing import cast

import attrs
import pytest
import trio

from common.lease.records import (
    AcceptedRestore,
    EtcdKeys,
    MemberRecord,
    OperatorReply,
    OperatorRequest,
    Role,
    WantedKind,
    decode,
    encode,
)
from daemons.keeperd.core.events import CampaignLost
from daemons.keeperd.identity import KeeperIdentity
from daemons.keeperd.keys import Campaigner, ClusterViewer, MasterKeys, Membership, Won
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdUnknown, Get, Put, Transaction, TransactionReply
from tests.support.etcds.etcd import TestEtcd
from tests.support.wait import wait_until_async

TTL_S = 60.0


def identity(node: str, nonce: str = "") -> KeeperIdentity:
    return KeeperIdentity(node, nonce or f"nonce-{node}", "boot", "machine")


@attrs.frozen
class Node:
    keys: EtcdKeys
    client: EtcdClient
    name: str

    @property
    def master_keys(self) -> MasterKeys:
        return MasterKeys(self.client, self.keys, Campaigner(identity(self.name), TTL_S, 0.0))

    @property
    def viewer(self) -> ClusterViewer:
        return ClusterViewer(self.client, self.keys, identity(self.name), [])

    async def win(self) -> Won:
        view = await self.viewer.look()
        won = await self.master_keys.campaign(view.epoch, view.epoch_revision)
        assert isinstance(won, Won), won
        return won


def run(etcd: TestEtcd, play: Callable[[Node, Node], Awaitable[None]]) -> None:
    """Let two nodes play."""

    async def main() -> None:
        async with EtcdClient(etcd.address()) as client:
            keys = EtcdKeys(etcd.prefix)
            await play(Node(keys, client, "node1.test"), Node(keys, client, "node2.test"))

    trio.run(main)


def test_a_campaign_makes_a_master_that_all_see(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        won = await one.win()
        view = await other.viewer.look()

        assert view.master == won.event.record
        assert (view.master_revision, view.epoch_revision) == (won.fence.master_revision, won.fence.epoch_revision)
        assert view.epoch == won.fence.epoch == 1
        assert view.last_master is not None
        assert (view.last_master.node, view.last_master.clean) == ("node1.test", False)

    run(etcd, play)


def test_late_key_of_an_earlier_campaign_is_not_taken_for_ours(etcd: TestEtcd) -> None:
    async def play(one: Node, _: Node) -> None:
        # of the same process, with the same epoch; its lease is not the one that would be renewed
        await one.win()

        assert await one.master_keys.campaign(0, 0) == CampaignLost()

    run(etcd, play)


def test_node_whose_etcd_was_accepted_is_not_stale_any_more(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        for node in (one, other):
            await one.client.transact(Transaction((), [Put(one.keys.stale(node.name), b"3")]))

        await one.master_keys.accept(AcceptedRestore(epoch=9, node=one.name))

        assert not (await one.viewer.look()).is_stale
        assert (await other.viewer.look(elsewhere=True)).is_stale

    run(etcd, play)


def test_one_of_two_that_campaign_at_once_wins(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        outcomes: list[object] = []

        async def campaign(node: Node) -> None:
            outcomes.append(await node.master_keys.campaign(0, 0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(campaign, one)
            nursery.start_soon(campaign, other)

        assert sorted(isinstance(each, Won) for each in outcomes) == [False, True]
        assert CampaignLost() in outcomes

    run(etcd, play)


def test_a_campaign_by_an_old_view_is_lost(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        old = await one.viewer.look()
        won = await other.win()
        await other.master_keys.release(won, is_clean=True)

        assert await one.master_keys.campaign(9, old.epoch_revision) == CampaignLost()

    run(etcd, play)


@attrs.define
class Deaf:
    """A client whose first replies to transactions are lost."""

    client: EtcdClient
    losses: int

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        outcome = await self.client.transact(transaction, limit_s)
        if transaction.when and self.losses:
            self.losses -= 1
            raise EtcdUnknown("the reply was lost")
        return outcome

    def __getattr__(self, name: str) -> object:
        return getattr(self.client, name)


def test_a_campaign_whose_reply_was_lost_is_known_by_its_nonce(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        deaf = cast(EtcdClient, Deaf(one.client, losses=2))

        won = await attrs.evolve(one, client=deaf).win()

        view = await other.viewer.look()
        assert (view.master_revision, view.epoch_revision) == (won.fence.master_revision, won.fence.epoch_revision)

    run(etcd, play)


def test_a_release_is_clean_and_touches_no_later_mastership(etcd: TestEtcd) -> None:
    async def play(one: Node, other: Node) -> None:
        first = await one.win()
        await one.master_keys.release(first, is_clean=True)
        view = await other.viewer.look()
        assert view.master is None
        assert view.last_master is not None
        assert view.last_master.clean

        second = await other.win()
        await one.master_keys.release(first, is_clean=True)

        view = await one.viewer.look()
        assert view.master == second.event.record
        assert view.last_master is not None
        assert (view.last_master.node, view.last_master.clean) == ("node2.test", False)

    run(etcd, play)


def test_a_request_goes_with_its_verdict_and_another_stays(etcd: TestEtcd) -> None:
    async def play(one: Node, _: Node) -> None:
        request = OperatorRequest(kind=WantedKind.SWITCHOVER, node="node2.test", nonce="a")
        await one.client.transact(Transaction((), [Put(one.keys.wanted, encode(request))]))

        await one.master_keys.remove_wanted(attrs.evolve(request, nonce="b"), "no")
        assert (await one.viewer.look()).wanted == request
        await one.master_keys.remove_wanted(request, "it is stale")

        assert (await one.viewer.look()).wanted is None
        (verdict,) = (await one.client.get(Get(one.keys.verdict))).values
        assert decode(verdict.value, OperatorReply, "verdict") == OperatorReply(nonce="a", refusal="it is stale")

    run(etcd, play)


def test_an_acceptance_ends_the_mastership_and_raises_the_epoch(etcd: TestEtcd) -> None:
    async def play(one: Node, _: Node) -> None:
        await one.win()

        await one.master_keys.accept(AcceptedRestore(epoch=8, node="node1.test"))
        # one that comes late
        await one.master_keys.accept(AcceptedRestore(epoch=7, node="node2.test"))

        view = await one.viewer.look()
        assert (view.master, view.epoch, view.accepted) == (None, 8, AcceptedRestore(epoch=8, node="node1.test"))

    run(etcd, play)


def test_an_acceptance_mends_an_epoch_that_is_no_number(etcd: TestEtcd) -> None:
    async def play(one: Node, _: Node) -> None:
        await one.client.transact(Transaction((), [Put(one.keys.epoch, b"foreign")]))

        await one.master_keys.accept(AcceptedRestore(epoch=8, node="node1.test"))

        assert (await one.viewer.look()).epoch == 8

    run(etcd, play)


def record(nonce: str) -> MemberRecord:
    return MemberRecord(
        node="node1.test",
        nonce=nonce,
        machine_id="m",
        boot_id="b",
        release="1",
        state="follow",
        role=Role.REPLICA,
    )


@pytest.mark.parametrize(("earlier", "is_twin"), [([], True), (["nonce-node1.test"], False)])
def test_a_second_machine_of_a_name_takes_no_part(etcd: TestEtcd, earlier: list[str], is_twin: bool) -> None:
    async def play(one: Node, _: Node) -> None:
        mine, its = identity("node1.test"), identity("node1.test", "other")
        own = [*earlier, its.nonce]
        first = Membership(one.client, one.keys, mine, [mine.nonce], lambda: record(mine.nonce), TTL_S)
        second = Membership(one.client, one.keys, its, own, lambda: record(its.nonce), TTL_S)

        async def nonce() -> str:
            found = (await one.client.get(Get(one.keys.member("node1.test")))).values
            return decode(found[0].value, MemberRecord, "member").nonce if found else ""

        async def is_first() -> bool:
            return await nonce() == mine.nonce

        async def is_judged() -> bool:
            return second.has_looked

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.run)
            await wait_until_async(is_first, what="the first one is a member")
            nursery.start_soon(second.run)
            await wait_until_async(is_judged, what="the second one has looked")
            assert (await nonce() == mine.nonce) is is_twin
            view = await ClusterViewer(one.client, one.keys, its, own).look()
            assert view.has_twin is is_twin
            nursery.cancel_scope.cancel()

    run(etcd, play)
