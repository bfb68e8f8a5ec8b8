"""What members say of themselves, what keeps etcd in order, and which releases are used."""

import attrs
import pytest
import trio

from protocol.etcd.address import Endpoint
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import Compacted, EtcdUnknown, Get, Put, Transaction, UnsafeRelease
from protocol.etcd.questions import Alarm
from tests.support.etcds.etcd import TestEtcd
from tests.support.fakes.etcdmember import address_of, reply, scripted_member
from tests.support.sockets.twoaddresses import TwoAddresses

pytestmark = pytest.mark.trio


async def test_each_member_tells_its_release_its_size_and_its_leader(etcd: TestEtcd) -> None:
    async with EtcdClient(etcd.address()) as client:
        (member,) = await client.members()
        (endpoint,) = client.endpoints
        status = await client.status(endpoint)
        releases = client.releases()

    assert member.client_urls == [str(endpoint)]
    assert status.is_leader
    assert status.member_id == status.leader == member.member_id
    assert status.release == etcd.etcd.binary.release
    assert releases == {endpoint: status.release}
    assert 0 < status.used <= status.size


async def test_a_member_that_is_not_there_has_no_status(etcd: TestEtcd) -> None:
    async with EtcdClient(etcd.address()) as client:
        with pytest.raises(EtcdUnknown, match="connection refused"):
            await client.status(etcd.etcd.nobodys_endpoints(1)[0])


async def test_what_was_compacted_is_gone_and_may_be_compacted_again(etcd: TestEtcd) -> None:
    async with EtcdClient(etcd.address()) as client:
        for value in (b"1", b"2", b"3"):
            outcome = await client.transact(Transaction([], [Put(f"{etcd.prefix}k", value)]))
        now = outcome.header.revision
        await client.compact(now)
        await client.compact(now)
        await client.defragment(client.endpoints[0])

        with pytest.raises(Compacted):
            await client.get(Get(f"{etcd.prefix}k", revision=now - 1))
        assert [each.value for each in (await client.get(Get(f"{etcd.prefix}k"))).values] == [b"3"]


async def test_there_are_no_alarms_and_to_disarm_one_that_is_not_there_is_no_error(etcd: TestEtcd) -> None:
    async with EtcdClient(etcd.address()) as client:
        (member,) = await client.members()
        await client.disarm(Alarm(member.member_id, "NOSPACE"))

        assert await client.alarms() == []


@pytest.mark.parametrize("release", ["3.5.0", "3.5.1", "3.5.2"])
async def test_a_release_that_loses_data_is_refused_before_anything_is_sent(release: str) -> None:
    async with scripted_member() as member, EtcdClient(address_of(member)) as client:
        member.replies["/version"] = [reply(200, f'{{"etcdserver":"{release}"}}'.encode())]
        with pytest.raises(UnsafeRelease, match=f"{release}.*allow_broken_releases"):
            await client.get(Get("k"))

    assert {each[0] for each in member.requests} == {"/version"}


async def test_it_is_used_where_the_settings_say_so() -> None:
    found = reply(200, b'{"header":{"cluster_id":"1","member_id":"2","revision":"7"}}')
    async with scripted_member() as member:
        member.replies |= {"/version": [reply(200, b'{"etcdserver":"3.5.1"}')], "/v3/kv/range": [found]}
        async with EtcdClient(attrs.evolve(address_of(member), allow_broken_releases=True)) as client:
            assert (await client.get(Get("k"))).header.revision == 7


async def test_a_server_that_is_not_etcd_is_told_as_such() -> None:
    async with scripted_member() as member:
        member.replies["/version"] = [reply(200, b"<html>")]
        async with EtcdClient(address_of(member, request_limit_s=1.0)) as client:
            with pytest.raises(EtcdUnknown, match="no member of etcd: it replied b'<html>'"):
                await client.get(Get("k"))


async def test_a_member_that_listens_at_one_address_of_its_name_is_found(etcd: TestEtcd) -> None:
    trio.socket.set_custom_hostname_resolver(TwoAddresses())
    endpoint = Endpoint("member.test", etcd.address().endpoints[0].port)

    async with EtcdClient(attrs.evolve(etcd.address(), endpoints=(endpoint,))) as client:
        assert (await client.get(Get(etcd.prefix), limit_s=5.0)).values == []
