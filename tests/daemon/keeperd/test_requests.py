"""What becomes of operators' requests in etcd while no node is the master, who would judge them (lease.md 2 and 7)."""

from collections.abc import Awaitable, Callable
from typing import cast

import attrs
import pytest
import trio

from common.errors import Conflict
from common.lease.records import EtcdKeys, MasterRecord, OperatorReply, OperatorRequest, decode, encode
from daemons.keeperd.handlers import RequestHandlers
from daemons.keeperd.renewer import Renewer
from daemons.keeperd.shell import Shell
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Delete, EtcdUnknown, Get, Put, Transaction, TransactionReply
from protocol.keeperd import Switchover, Takeover
from protocol.peer import Peer
from tests.support.etcds.etcd import TestEtcd
from tests.support.wait import wait_until_async
from tests.unit.keeperd.playing import ME

PEER = Peer(pid=1, uid=0, gid=0)


class Etcd(EtcdClient):
    """Can be silent for a while."""

    is_silent = False
    # questions that had no reply
    unheard = 0

    async def transact(self, transaction: Transaction, limit_s: float | None = None) -> TransactionReply:
        if self.is_silent:
            self.unheard += 1
            raise EtcdUnknown("no member has replied")
        return await super().transact(transaction, limit_s)


@attrs.frozen
class Cluster:
    """Candidates whose records lie in etcd; no keeperd judges."""

    client: Etcd
    keys: EtcdKeys
    shell: Shell
    requests: RequestHandlers

    async def live(self, *names: str) -> None:
        for name in names:
            await self.client.transact(Transaction((), [Put(self.keys.member(name), b"{}")]))

    async def dies(self, name: str) -> None:
        await self.client.transact(Transaction((), [Delete(self.keys.member(name))]))

    async def ask(self, call: Takeover | Switchover) -> str:
        if isinstance(call, Takeover):
            return await self.requests.takeover(call, PEER)
        return await self.requests.switchover(call, PEER)

    async def wanted(self) -> list[OperatorRequest]:
        found = await self.client.get(Get(self.keys.wanted))
        return [decode(pair.value, OperatorRequest, pair.key) for pair in found.values]

    async def until_wanted(self, node: str) -> OperatorRequest:
        async def is_there() -> bool:
            return [each.node for each in await self.wanted()] == [node]

        await wait_until_async(is_there, what=f"'{node}' to be wanted")
        return (await self.wanted())[0]

    async def decide(self, wanted: OperatorRequest, refusal: str = "") -> None:
        """As a master that serves does."""
        verdict = Put(self.keys.verdict, encode(OperatorReply(nonce=wanted.nonce, refusal=refusal)))
        await self.client.transact(Transaction((), [Delete(self.keys.wanted), verdict]))

    async def become_master(self, name: str) -> None:
        record = MasterRecord(node=name, nonce="", epoch=1, ttl_s=10.0)
        await self.client.transact(Transaction((), [Put(self.keys.master, encode(record))]))

    def look(self) -> None:
        """What a look at etcd does for those that wait."""
        self.shell.changed.set()
        self.shell.changed = trio.Event()


@attrs.define
class Asked:
    """A call that goes on in the background."""

    ended: trio.Event = attrs.Factory(trio.Event)
    master: str = ""
    refusal: str = ""

    async def run(self, call: Callable[[], Awaitable[str]]) -> None:
        try:
            self.master = await call()
        except Conflict as error:
            self.refusal = error.message
        self.ended.set()

    async def until_ended(self, cluster: Cluster) -> None:
        async def has_ended() -> bool:
            cluster.look()
            return self.ended.is_set()

        await wait_until_async(has_ended, what="the call to end")


def play(etcd: TestEtcd, story: Callable[[Cluster, trio.Nursery], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Etcd(etcd.address()) as client, trio.open_nursery() as nursery:
            keys, shell = EtcdKeys(etcd.prefix), Shell(ME)
            requests = RequestHandlers(shell, client, keys, cast(Renewer, None))
            await story(Cluster(client, keys, shell, requests), nursery)
            nursery.cancel_scope.cancel()

    trio.run(main)


def takeover(cluster: Cluster, nursery: trio.Nursery, node: str) -> Asked:
    asked = Asked()
    nursery.start_soon(asked.run, lambda: cluster.requests.takeover(Takeover(node), PEER))
    return asked


@pytest.mark.parametrize("call", [Takeover("node9"), Switchover("node9")])
def test_a_move_to_a_node_that_is_not_there_is_refused_and_leaves_no_request(
    etcd: TestEtcd, call: Takeover | Switchover
) -> None:
    async def story(cluster: Cluster, _: trio.Nursery) -> None:
        await cluster.live("node2", "node3")

        with pytest.raises(Conflict, match=r"'node9' is no candidate whose keeperd runs; those are: 'node2', 'node3'"):
            await cluster.ask(call)

        assert await cluster.wanted() == []

    play(etcd, story)


def test_a_short_name_is_enough(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node2.test", "node3.test")
        asked = takeover(cluster, nursery, "node3")
        wanted = await cluster.until_wanted("node3.test")

        await cluster.become_master("node3.test")
        await cluster.decide(wanted)
        await asked.until_ended(cluster)

        assert asked.master == "node3.test"

    play(etcd, story)


def test_a_second_takeover_takes_the_place_of_the_first_while_nobody_is_the_master(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node2", "node3")
        first = takeover(cluster, nursery, "node2")
        await cluster.until_wanted("node2")

        second = takeover(cluster, nursery, "node3")
        wanted = await cluster.until_wanted("node3")
        await first.until_ended(cluster)
        assert first.refusal == "a takeover to 'node3' was asked for instead"
        await cluster.become_master("node3")
        await cluster.decide(wanted)
        await second.until_ended(cluster)

        assert second.master == "node3"

    play(etcd, story)


def test_a_pending_request_stays_while_there_is_a_master_who_judges_it(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node1", "node2", "node3")
        await cluster.become_master("node1")
        takeover(cluster, nursery, "node2")
        first = await cluster.until_wanted("node2")

        with pytest.raises(Conflict, match="another request is being fulfilled: takeover to 'node2'"):
            await cluster.requests.takeover(Takeover("node3"), PEER)

        assert await cluster.wanted() == [first]

    play(etcd, story)


def test_a_takeover_ends_when_its_node_dies_and_the_request_is_taken_back(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node2")
        asked = takeover(cluster, nursery, "node2")
        await cluster.until_wanted("node2")

        await cluster.dies("node2")
        await asked.until_ended(cluster)

        assert asked.refusal.startswith("keeperd on 'node2' has ended before it was the master")
        assert await cluster.wanted() == []

    play(etcd, story)


def test_a_request_that_has_gone_without_a_word_ends_the_waiting(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node2")
        asked = takeover(cluster, nursery, "node2")
        wanted = await cluster.until_wanted("node2")

        # the verdict on a later request has taken the place of its own
        await cluster.decide(attrs.evolve(wanted, nonce="a later one"))
        await asked.until_ended(cluster)

        assert asked.refusal == "it was taken back, or another request has followed it since"

    play(etcd, story)


def test_an_etcd_that_is_silent_for_a_while_does_not_end_the_waiting(etcd: TestEtcd) -> None:
    async def story(cluster: Cluster, nursery: trio.Nursery) -> None:
        await cluster.live("node2")
        asked = takeover(cluster, nursery, "node2")
        wanted = await cluster.until_wanted("node2")
        cluster.client.is_silent = True

        async def was_asked_twice() -> bool:
            cluster.look()
            return cluster.client.unheard >= 2

        await wait_until_async(was_asked_twice, what="etcd to be asked in vain")
        assert not asked.ended.is_set()
        cluster.client.is_silent = False

        await cluster.become_master("node2")
        await cluster.decide(wanted)
        await asked.until_ended(cluster)

        assert asked.master == "node2"

    play(etcd, story)
