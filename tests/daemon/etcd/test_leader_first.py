"""The member of etcd that leads is asked first, whoever that is; real members, and what each says of itself."""

import contextlib
from collections.abc import Iterator

import attrs
import pytest
import trio

from protocol.etcd.address import Endpoint, EtcdAddress
from protocol.etcd.client import EtcdClient, LeaderFirst
from protocol.etcd.kv import EtcdError, EtcdUnknown, Get, Header
from protocol.etcd.questions import MemberStatus
from tests.support.etcds.etcd import Etcd, EtcdBinary
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), members=3, binary=etcd_binary) as etcd:
        yield etcd


async def _statuses(client: EtcdClient) -> dict[Endpoint, MemberStatus]:
    return {endpoint: await client.status(endpoint) for endpoint in client.endpoints}


async def _leader(client: EtcdClient) -> Endpoint:
    """The member that leads now; members that stand still for a moment elect another one."""
    found: list[Endpoint] = []

    async def is_there() -> bool:
        found[:] = [endpoint for endpoint, status in (await _statuses(client)).items() if status.is_leader]
        return len(found) == 1

    await wait_until_async(is_there, what="one member to lead")
    return found[0]


async def _until_leader_first(client: EtcdClient, operator: EtcdClient, besides: Endpoint | None = None) -> Endpoint:
    """Wait until the member that leads is asked first; return it. Args: besides: this one is not to lead any more."""

    async def is_first() -> bool:
        # of a new term the client hears by a reply
        await client.get(Get("/a"))
        return client.first == await _leader(operator) != besides

    await wait_until_async(is_first, what="the leader is asked first", state=lambda: client.first)
    return client.first


def _beginning_at_a_follower(address: EtcdAddress, leader: Endpoint) -> EtcdAddress:
    return attrs.evolve(address, endpoints=tuple(sorted(address.endpoints, key=lambda each: each == leader)))


async def test_the_leader_is_asked_first_and_after_it_has_changed_the_new_one(three: Etcd) -> None:
    async with EtcdClient(three.address()) as operator:
        old = await _leader(operator)
        async with EtcdClient(_beginning_at_a_follower(three.address(), old)) as client, trio.open_nursery() as nursery:
            assert client.first != old
            nursery.start_soon(client.ask_leader_first)
            old = await _until_leader_first(client, operator)

            other = next(each for each in client.endpoints if each != old)
            # it is refused where an election has come before it
            with contextlib.suppress(EtcdError):
                await operator.move_leader(old, (await operator.status(other)).member_id)
            await _until_leader_first(client, operator, besides=old)
            nursery.cancel_scope.cancel()


async def test_a_leader_that_does_not_reply_is_left_as_any_other_member(three: Etcd) -> None:
    async with EtcdClient(three.address()) as operator:
        address = _beginning_at_a_follower(three.address(request_limit_s=4.0), await _leader(operator))
        async with EtcdClient(address) as client, trio.open_nursery() as nursery:
            nursery.start_soon(client.ask_leader_first)
            # the wait for the leader lasts until its status has come
            leader = await _until_leader_first(client, operator)
            paused = next(each for each in three.members if each.url == str(leader))
            paused.pause()
            try:
                await client.get(Get("/a"), limit_s=60.0)
                await wait_until_async(lambda: client.first != leader, what="another member is asked first")
            finally:
                paused.resume()
            nursery.cancel_scope.cancel()


@attrs.define
class Members:
    """What three members say."""

    endpoints: tuple[Endpoint, ...] = tuple(Endpoint("192.0.2.1", port) for port in (1, 2, 3))
    # endpoint -> the term in which it believes to lead
    leads: dict[Endpoint, int] = attrs.field(factory=dict)
    asked: list[Endpoint] = attrs.field(factory=list)
    found: list[Endpoint] = attrs.field(factory=list)

    async def ask(self, endpoint: Endpoint) -> MemberStatus:
        await trio.lowlevel.checkpoint()
        self.asked.append(endpoint)
        if endpoint == self.endpoints[2]:
            raise EtcdUnknown("no reply")
        term, own = self.leads.get(endpoint, 7), str(endpoint.port)
        leader = own if endpoint in self.leads else "9"
        return MemberStatus(Header("1", own, 1, term), "3.4.23", 0, 0, leader)


async def test_members_are_asked_once_a_term_and_one_that_led_in_an_earlier_term_is_not_believed() -> None:
    members = Members()
    first, second, silent = members.endpoints
    members.leads = {first: 6, second: 7}
    leader = LeaderFirst(members.endpoints, members.ask, members.found.append)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run)
        for term in (7, 7, 6, 7):
            leader.heard(term)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert sorted(members.asked, key=str) == [first, second, silent]
    assert members.found == [second]


async def test_members_are_asked_again_while_the_leader_of_a_term_is_not_elected(
    autojump_clock: trio.testing.MockClock,
) -> None:
    members = Members()
    leader = LeaderFirst(members.endpoints, members.ask, members.found.append)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leader.run)
        leader.heard(7)
        await trio.sleep(10)
        # nobody waits for it while nothing is asked of etcd
        assert len(members.asked) == 3
        members.leads = {members.endpoints[1]: 7}
        for _ in range(2):
            leader.heard(7)
            await trio.sleep(10)
        nursery.cancel_scope.cancel()

    assert len(members.asked) == 6
    assert members.found == [members.endpoints[1]]
