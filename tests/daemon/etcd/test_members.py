"""What members say of themselves, what keeps etcd in order, and which releases are used."""

import socket
from typing import Any

import attrs
import pytest
import trio

from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.errors import Compacted, EtcdUnknown, UnsafeRelease
from protocol.etcd.kv import Get, Put, Transaction
from protocol.etcd.maintenance import Alarm
from tests.support.etcds.etcd import HOST, TestEtcd
from tests.support.fakes.etcdmember import reply, scripted_member

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
    async with scripted_member() as member, EtcdClient(EtcdAddress((member.endpoint,))) as client:
        member.replies["/version"] = [reply(200, f'{{"etcdserver":"{release}"}}'.encode())]
        with pytest.raises(UnsafeRelease, match=f"{release}.*allow_broken_releases"):
            await client.get(Get("k"))

    assert {each[0] for each in member.requests} == {"/version"}


async def test_it_is_used_where_the_settings_say_so() -> None:
    found = reply(200, b'{"header":{"cluster_id":"1","member_id":"2","revision":"7"}}')
    async with scripted_member() as member:
        member.replies |= {"/version": [reply(200, b'{"etcdserver":"3.5.1"}')], "/v3/kv/range": [found]}
        async with EtcdClient(EtcdAddress((member.endpoint,), allow_broken_releases=True)) as client:
            assert (await client.get(Get("k"))).header.revision == 7


async def test_a_server_that_is_not_etcd_is_told_as_such() -> None:
    async with scripted_member() as member:
        member.replies["/version"] = [reply(200, b"<html>")]
        async with EtcdClient(EtcdAddress((member.endpoint,), request_limit_s=1.0)) as client:
            with pytest.raises(EtcdUnknown, match="no member of etcd: it replied b'<html>'"):
                await client.get(Get("k"))


class _TwoAddresses(trio.abc.HostnameResolver):
    """A name with an address of each kind, as localhost; the one of IPv6 comes first."""

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, ...]]:
        assert port is not None
        rest = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6, *rest, ("::1", int(port), 0, 0)),
            (socket.AF_INET, *rest, (HOST, int(port))),
        ]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


async def test_a_member_that_listens_at_one_address_of_its_name_is_found(etcd: TestEtcd) -> None:
    trio.socket.set_custom_hostname_resolver(_TwoAddresses())
    endpoint = Endpoint("member.test", etcd.address().endpoints[0].port)

    async with EtcdClient(attrs.evolve(etcd.address(), endpoints=(endpoint,))) as client:
        assert (await client.get(Get(etcd.prefix), limit_s=5.0)).values == []
