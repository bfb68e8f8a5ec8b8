"""Keys, transactions and leases of a real etcd."""

from collections.abc import AsyncIterator

import pytest
import trio

from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import (
    Compacted,
    ComparedField,
    Delete,
    Equals,
    EtcdError,
    EtcdUnknown,
    Get,
    LeaseGone,
    Put,
    TooLarge,
    Transaction,
)
from tests.support.etcds.etcd import TestEtcd

pytestmark = pytest.mark.trio


@pytest.fixture
async def client(etcd: TestEtcd) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(etcd.address()) as client:
        yield client


async def put(client: EtcdClient, key: str, value: bytes, lease: int = 0) -> int:
    outcome = await client.transact(Transaction([], [Put(key, value, lease)]))
    assert outcome.succeeded
    return outcome.header.revision


async def test_a_value_is_found_as_it_was_put(etcd: TestEtcd, client: EtcdClient) -> None:
    revision = await put(client, f"{etcd.prefix}k", bytes(range(256)))

    found = await client.get(Get(f"{etcd.prefix}k"))

    assert [each.value for each in found.values] == [bytes(range(256))]
    assert found.values[0].create_revision == found.values[0].mod_revision == revision


async def test_an_empty_value_and_a_missing_key_differ(etcd: TestEtcd, client: EtcdClient) -> None:
    await put(client, f"{etcd.prefix}k", b"")

    assert [each.value for each in (await client.get(Get(f"{etcd.prefix}k"))).values] == [b""]
    assert (await client.get(Get(f"{etcd.prefix}l"))).values == []


async def test_pages_of_a_prefix_at_one_revision_hold_each_key_once(etcd: TestEtcd, client: EtcdClient) -> None:
    keys = [f"{etcd.prefix}{number:02}" for number in range(25)]
    await client.transact(Transaction([], [Put(key, b"x") for key in keys]))
    read, after, revision, more = list[str](), "", 0, True

    while more:
        page = await client.get(Get(etcd.prefix, is_prefix=True, limit=10, after=after, revision=revision))
        read += [each.key for each in page.values]
        after, revision, more = read[-1], revision or page.header.revision, page.more
        await put(client, f"{etcd.prefix}99", b"later")

    assert read == keys


async def test_a_transaction_whose_comparison_fails_changes_nothing(etcd: TestEtcd, client: EtcdClient) -> None:
    key, other = f"{etcd.prefix}k", f"{etcd.prefix}other"
    revision = await put(client, key, b"1")
    taken = Transaction([Equals(key, ComparedField.CREATED, 0)], [Put(key, b"2"), Put(other, b"2")], [Get(key)])

    outcome = await client.transact(taken)

    assert not outcome.succeeded
    assert [(each.value, each.mod_revision) for each in outcome.found[0]] == [(b"1", revision)]
    assert (await client.get(Get(other))).values == []


async def test_each_number_of_a_key_can_be_compared(etcd: TestEtcd, client: EtcdClient) -> None:
    key = f"{etcd.prefix}k"
    lease = (await client.grant(60)).lease
    created = await put(client, key, b"1")
    modified = await put(client, key, b"2", lease)
    right = {ComparedField.CREATED: created, ComparedField.MODIFIED: modified, ComparedField.LEASE: lease}

    for field, number in right.items():
        assert (await client.transact(Transaction([Equals(key, field, number)], []))).succeeded
        assert not (await client.transact(Transaction([Equals(key, field, number + 1)], []))).succeeded


async def test_deleting_a_prefix_leaves_other_keys(etcd: TestEtcd, client: EtcdClient) -> None:
    await client.transact(Transaction([], [Put(f"{etcd.prefix}{name}", b"") for name in ("a/1", "a/2", "b")]))

    await client.transact(Transaction([], [Delete(f"{etcd.prefix}a/", is_prefix=True)]))

    left = await client.get(Get(etcd.prefix, is_prefix=True, keys_only=True))
    assert [each.key for each in left.values] == [f"{etcd.prefix}b"]


async def test_a_lease_lives_while_it_is_renewed_and_takes_its_keys_along(etcd: TestEtcd, client: EtcdClient) -> None:
    granted = await client.grant(30)
    await put(client, f"{etcd.prefix}k", b"", granted.lease)

    assert await client.renew(granted.lease) == granted.ttl_s == 30
    await client.revoke(granted.lease)

    assert (await client.get(Get(f"{etcd.prefix}k"))).values == []
    with pytest.raises(LeaseGone):
        await client.renew(granted.lease)
    with pytest.raises(LeaseGone):
        await client.revoke(granted.lease)
    with pytest.raises(LeaseGone):
        await put(client, f"{etcd.prefix}k", b"", granted.lease)


async def test_etcd_may_grant_a_longer_lease_than_asked_for(client: EtcdClient) -> None:
    assert (await client.grant(1)).ttl_s == 2


async def test_too_many_operations_and_too_many_bytes_are_refused_as_such(etcd: TestEtcd, client: EtcdClient) -> None:
    with pytest.raises(TooLarge, match="too many operations"):
        await client.transact(Transaction([], [Put(f"{etcd.prefix}{number}", b"") for number in range(129)]))
    with pytest.raises(TooLarge, match="too large"):
        await put(client, f"{etcd.prefix}k", bytes(1_600_000))

    assert (await client.get(Get(etcd.prefix, is_prefix=True))).values == []


async def test_a_revision_that_is_still_to_come_is_no_unknown_answer(etcd: TestEtcd, client: EtcdClient) -> None:
    with pytest.raises(EtcdError, match="future revision") as raised:
        await client.get(Get(etcd.prefix, revision=2**40))

    assert not isinstance(raised.value, EtcdUnknown | Compacted)


async def test_many_tasks_ask_at_a_time_and_each_gets_its_own_reply(etcd: TestEtcd, client: EtcdClient) -> None:
    async def write_and_read(number: int) -> None:
        key = f"{etcd.prefix}{number}"
        await put(client, key, str(number).encode())
        assert [each.value for each in (await client.get(Get(key))).values] == [str(number).encode()]

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(write_and_read, number)


async def test_a_request_that_is_given_up_leaves_no_connection_on_which_its_reply_comes(
    etcd: TestEtcd, client: EtcdClient
) -> None:
    for number in range(20):
        with trio.move_on_after(0):
            await client.get(Get(f"{etcd.prefix}missing"))
        key = f"{etcd.prefix}{number}"
        await put(client, key, key.encode())
        assert [each.value for each in (await client.get(Get(key))).values] == [key.encode()]


async def test_nobody_at_any_endpoint_is_told_with_all_of_them(etcd: TestEtcd) -> None:
    address = EtcdAddress(etcd.etcd.nobodys_endpoints(2), request_limit_s=0.5)

    async with EtcdClient(address) as client:
        with pytest.raises(EtcdUnknown) as raised:
            await client.get(Get("k"), limit_s=3.0)

    assert all(f"{each}: connection refused" in raised.value.message for each in address.endpoints)
