"""A watch tells what has changed, and that it has ended.

Source: lease.md 1 and 4.
"""

from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Compacted, Delete, EtcdUnknown, Get, Put, Transaction, WatchEnded, WatchEvent
from tests.support.etcds.etcd import TestEtcd
from tests.support.fakes.etcdmember import address_of, reply, scripted_member, stream

pytestmark = pytest.mark.trio
CREATED = b'{"result":{"header":{"cluster_id":"1","member_id":"2"},"created":true}}'


@pytest.fixture
async def client(etcd: TestEtcd) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(etcd.address()) as client:
        yield client


async def put(client: EtcdClient, key: str, value: bytes) -> int:
    return (await client.transact(Transaction([], [Put(key, value)]))).header.revision


def told(event: WatchEvent) -> tuple[str, bytes, bool]:
    return event.pair.key, event.pair.value, event.is_gone


async def test_changes_come_in_order_from_the_revision_on_that_was_named(etcd: TestEtcd, client: EtcdClient) -> None:
    key, other = f"{etcd.prefix}a", f"{etcd.prefix}b"
    revision = await put(client, key, b"before")
    await put(client, key, b"1")

    async with client.watch(etcd.prefix, revision) as events:
        await put(client, "/foreign", b"")
        await client.transact(Transaction([], [Delete(key), Put(other, b"2")]))

        seen = [await anext(events) for _ in range(3)]

    assert [told(each) for each in seen] == [(key, b"1", False), (key, b"", True), (other, b"2", False)]
    assert [each.pair.mod_revision - revision for each in seen] == [1, 3, 3]


async def test_a_watch_from_before_a_compaction_says_so(etcd: TestEtcd, client: EtcdClient) -> None:
    revision = await put(client, f"{etcd.prefix}a", b"1")
    await put(client, f"{etcd.prefix}a", b"2")
    await client.compact(await put(client, f"{etcd.prefix}a", b"3"))

    async with client.watch(etcd.prefix, revision) as events:
        with pytest.raises(Compacted):
            await anext(events)


async def test_a_watch_that_is_silent_for_long_ends(etcd: TestEtcd, client: EtcdClient) -> None:
    found = await client.get(Get(etcd.prefix, is_prefix=True))

    async with client.watch(etcd.prefix, found.header.revision, silence_s=1.0) as events:
        with pytest.raises(WatchEnded, match="nothing was heard"):
            await anext(events)


async def test_a_watch_goes_to_a_member_that_takes_it(etcd: TestEtcd) -> None:
    address = attrs.evolve(etcd.address(), endpoints=(*etcd.etcd.nobodys_endpoints(1), *etcd.address().endpoints))

    async with EtcdClient(address) as client:
        revision = await put(client, f"{etcd.prefix}a", b"1")
        async with client.watch(etcd.prefix, revision) as events:
            await put(client, f"{etcd.prefix}a", b"2")
            assert told(await anext(events)) == (f"{etcd.prefix}a", b"2", False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"result":{"header":{},"canceled":true,"cancel_reason":"etcdserver: no leader"}}', "no leader"),
        (b'{"result":{"header":{},"canceled":true}}', "canceled"),
        (b'{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}', "no leader"),
        (b'{"error":{"code":14,"message":"etcdserver: server stopped","details":[]}}', "server stopped"),
        (b"what?", "something else"),
    ],
)
async def test_a_watch_that_was_ended_without_a_close_raises(line: bytes, reason: str) -> None:
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        member.replies["/v3/watch"] = [stream(CREATED, line)]
        async with client.watch("/a/", 5) as events:
            with pytest.raises(WatchEnded, match=reason):
                await anext(events)

    assert [each[1].get("grpc-metadata-hasleader") for each in member.requests if each[0] == "/v3/watch"] == ["true"]


async def test_a_watch_that_is_canceled_in_its_first_line_is_tried_elsewhere() -> None:
    canceled = b'{"result":{"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"etcdserver: no leader"}}'
    async with (
        scripted_member() as bad,
        scripted_member() as good,
        EtcdClient(address_of(bad, good)) as client,
    ):
        bad.replies["/v3/watch"] = [stream(canceled)]
        good.replies["/v3/watch"] = [stream(CREATED)]

        async with client.watch("/a/", 5):
            assert (bad.asked("/v3/watch"), good.asked("/v3/watch")) == (1, 1)


async def test_a_watch_that_nobody_takes_is_no_watch() -> None:
    async with scripted_member() as member, EtcdClient(address_of(member, request_limit_s=1.0)) as client:
        member.replies["/v3/watch"] = [reply(503, b"")]
        with pytest.raises(EtcdUnknown, match="HTTP 503"):
            async with client.watch("/a/", 5):
                pass


async def test_a_line_that_comes_in_pieces_is_read_whole() -> None:
    event = b'{"result":{"events":[{"kv":{"key":"YQ==","mod_revision":"6","value":"Yg=="}}]}}'
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        first, rest = b"%x\r\n%s\r\n" % (19, event[:19]), stream(event[19:]).partition(b"\r\n\r\n")[2]
        member.replies["/v3/watch"] = [stream(CREATED) + first + rest]
        async with client.watch("a", 5) as events:
            with trio.fail_after(30):
                assert told(await anext(events)) == ("a", b"b", False)
