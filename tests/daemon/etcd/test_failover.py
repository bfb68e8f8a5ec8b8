"""Members of etcd that die, stop, or cut their replies: the next one is asked, and what is unknown is told as such.

Source: lease.md 1, 2 and 9 (faults 14, 15, 17, 22, 25, 26, 32).
"""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import (
    ComparedField,
    Equals,
    EtcdFull,
    EtcdUnknown,
    Get,
    Put,
    Transaction,
    TransactionReply,
    WatchEnded,
)
from tests.support.etcds.etcd import HOST, Etcd, EtcdBinary
from tests.support.fakes.etcdmember import HANG, address_of, reply, scripted_member
from tests.support.machines.proxy import Behaviour, Proxy
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio
# seconds; a member that does not reply is left for the next one
LIMIT_S = 1.0
FOUND = b'{"header":{"cluster_id":"1","member_id":"2","revision":"7"}}'


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), members=3, binary=etcd_binary) as etcd:
        yield etcd


async def put(client: EtcdClient, key: str, limit_s: float = PATIENCE_S) -> None:
    assert (await client.transact(Transaction([], [Put(key, b"x")]), limit_s)).succeeded


async def test_a_member_that_was_killed_is_left_for_the_next_one(three: Etcd) -> None:
    prefix = three.new_prefix()
    async with EtcdClient(three.address(LIMIT_S)) as client:
        await put(client, f"{prefix}before")
        three.members[0].kill()
        try:
            await put(client, f"{prefix}after")
            lease = (await client.grant(60, PATIENCE_S)).lease
            await client.renew(lease, PATIENCE_S)
            found = await client.get(Get(prefix, is_prefix=True), PATIENCE_S)
        finally:
            three.members[0].restart()

    assert [each.key for each in found.values] == [f"{prefix}after", f"{prefix}before"]


async def test_a_member_that_is_stopped_is_left_for_the_next_one(three: Etcd) -> None:
    key = f"{three.new_prefix()}k"
    async with EtcdClient(three.address(LIMIT_S)) as client:
        await put(client, key)
        three.members[0].pause()
        try:
            await put(client, key)
            found = await client.get(Get(key), PATIENCE_S)
        finally:
            three.members[0].resume()

    assert found.header.member_id != ""
    assert [each.value for each in found.values] == [b"x"]


async def test_a_watch_ends_when_its_member_loses_the_majority(three: Etcd) -> None:
    prefix = three.new_prefix()
    alone = attrs.evolve(three.address(), endpoints=three.address().endpoints[:1])
    async with EtcdClient(alone) as client:
        revision = (await client.get(Get(prefix), PATIENCE_S)).header.revision
        async with client.watch(prefix, revision) as events:
            for member in three.members[1:]:
                member.kill()
            try:
                with trio.fail_after(PATIENCE_S), pytest.raises(WatchEnded, match=r"ended its reply|no leader"):
                    await anext(events)
                with pytest.raises(EtcdUnknown):
                    await client.get(Get(prefix), limit_s=LIMIT_S)
                # a member says how it is without a majority, too
                assert not (await client.status(alone.endpoints[0], PATIENCE_S)).is_leader
            finally:
                for member in three.members[1:]:
                    member.spawn()
                for member in three.members[1:]:
                    member.wait_until_healthy()


async def test_nobody_replies_in_the_callers_time_and_all_are_named(three: Etcd) -> None:
    told = ""
    async with EtcdClient(three.address(0.2)) as client:
        for member in three.members:
            member.pause()
        try:
            # a test that stands still may have no time left for the last one
            for limit_s in (3.0, 30.0):
                if not all(each in told for each in three.endpoints):
                    with trio.fail_after(PATIENCE_S), pytest.raises(EtcdUnknown) as raised:
                        await client.get(Get("k"), limit_s=limit_s)
                    told = raised.value.message
        finally:
            for member in three.members:
                member.resume()

    assert all(f"{each}: no reply within" in told for each in three.endpoints)


async def test_a_change_whose_reply_was_lost_is_told_by_what_is_read(three: Etcd) -> None:
    key = f"{three.new_prefix()}master"
    with Proxy((HOST, 0), (HOST, three.members[0].port)) as proxy:
        endpoints = (Endpoint(*proxy.place), three.address().endpoints[1])
        async with (
            EtcdClient(EtcdAddress(endpoints, request_limit_s=PATIENCE_S)) as client,
            EtcdClient(three.address()) as other,
        ):
            await client.get(Get(key), PATIENCE_S)
            proxy.behave(Behaviour.HALF)
            outcomes: list[TransactionReply] = []

            async def campaign() -> None:
                mine = Transaction([Equals(key, ComparedField.CREATED, 0)], [Put(key, b"mine")], [Get(key)])
                outcomes.append(await client.transact(mine, 2 * PATIENCE_S))

            async def is_there() -> bool:
                return bool((await other.get(Get(key), PATIENCE_S)).values)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(campaign)
                await wait_until_async(is_there, what="the first member has carried it out")
                proxy.behave(Behaviour.RESET)

    # the second member refuses it, since the first one has carried it out
    (outcome,) = outcomes
    assert not outcome.succeeded
    assert [(each.value, each.create_revision == each.mod_revision) for each in outcome.found[0]] == [(b"mine", True)]


async def test_a_member_that_was_restarted_is_used_on_new_connections(tmp_path: Path, etcd_binary: EtcdBinary) -> None:
    with Etcd(tmp_path, binary=etcd_binary) as etcd:
        async with EtcdClient(etcd.address()) as client:
            await put(client, "before")
            etcd.members[0].kill()
            etcd.members[0].restart()

            await put(client, "after")
            assert len((await client.get(Get("", is_prefix=True))).values) == 2


@pytest.mark.parametrize(
    "bad",
    [
        reply(200, FOUND[:30], length=len(FOUND)),
        reply(200, FOUND[:30]),
        reply(200, b'{"result":{}}'),
        reply(200, b"[]"),
        reply(503, b'{"error":"etcdserver: no leader","code":14}'),
        reply(500, b"<html>"),
        b"HTTP/1.1 what\r\n\r\n",
        HANG,
    ],
    ids=["cut", "half of the JSON", "another reply", "a list", "no leader", "no etcd", "no HTTP", "silence"],
)
async def test_a_reply_that_says_nothing_sends_the_request_to_the_next_member_once(bad: bytes) -> None:
    async with scripted_member() as first, scripted_member() as second:
        first.replies["/v3/kv/range"] = [bad]
        second.replies["/v3/kv/range"] = [reply(200, FOUND)]
        # only silence takes all of it
        limit_s = 3 * LIMIT_S if bad == HANG else PATIENCE_S
        async with EtcdClient(address_of(first, second, request_limit_s=limit_s)) as client:
            for _ in range(3):
                assert (await client.get(Get("k"), PATIENCE_S)).header.revision == 7

    # it stays with the one that has replied
    assert (first.asked("/v3/kv/range"), second.asked("/v3/kv/range")) == (1, 3)


async def test_a_certain_refusal_is_not_asked_for_twice() -> None:
    full = reply(429, b'{"error":"etcdserver: mvcc: database space exceeded","code":8}')
    async with scripted_member() as first, scripted_member() as second:
        first.replies["/v3/kv/txn"] = [full]
        async with EtcdClient(address_of(first, second)) as client:
            with pytest.raises(EtcdFull):
                await client.transact(Transaction([], [Put("k", b"")]))

    assert (first.asked("/v3/kv/txn"), second.asked("/v3/kv/txn")) == (1, 0)


async def test_a_request_uses_the_connection_of_the_one_before() -> None:
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        member.replies["/v3/kv/range"] = [reply(200, FOUND)]
        for _ in range(5):
            await client.get(Get("k"))

    # each new connection asks for the release
    assert (member.asked("/version"), member.asked("/v3/kv/range")) == (1, 5)


async def test_a_caller_without_time_is_told_that_nobody_has_replied() -> None:
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        member.replies["/v3/kv/range"] = [reply(200, FOUND)]
        with pytest.raises(EtcdUnknown, match="no reply within 0 s"):
            await client.get(Get("k"), limit_s=0.0)


async def test_what_a_member_has_said_is_told_although_the_last_attempt_was_cut_short() -> None:
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        member.replies["/v3/kv/range"] = [reply(503, b""), HANG]
        with pytest.raises(EtcdUnknown, match="HTTP 503"):
            await client.get(Get("k"), limit_s=2.0)
