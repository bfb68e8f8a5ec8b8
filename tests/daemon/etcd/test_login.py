"""Users and passwords of etcd: tokens are fetched where they are asked for, and only then.

Source: lease.md 5.
"""

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from common.errors import InvalidRequest
from protocol.etcd.address import EtcdAddress
from protocol.etcd.client import EtcdClient
from protocol.etcd.kv import EtcdDenied, EtcdUnknown, Get, Put, Transaction
from tests.support.etcds.etcd import Etcd, EtcdBinary, TestEtcd
from tests.support.fakes.etcdmember import address_of, reply, scripted_member

pytestmark = pytest.mark.trio
PASSWORD = "first password"
FOUND = reply(200, b'{"header":{"cluster_id":"1","member_id":"2","revision":"7"}}')
TOKEN = reply(200, b'{"header":{},"token":"abc.1"}')
BAD_TOKEN = reply(401, b'{"error":"etcdserver: invalid auth token","code":16}')


@pytest.fixture(scope="module")
def guarded_etcd(tmp_path_factory: pytest.TempPathFactory, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path_factory.mktemp("etcd"), options=("--bcrypt-cost=4",), binary=etcd_binary) as etcd:
        etcd.ask_for_users(PASSWORD)
        yield etcd


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    return path


def as_root(address: EtcdAddress, password_file: Path) -> EtcdAddress:
    return attrs.evolve(address, user="root", password_file=str(password_file))


async def put(client: EtcdClient, key: str) -> None:
    assert (await client.transact(Transaction([], [Put(key, b"x")]))).succeeded


async def test_whoever_has_no_user_is_told_which_settings_name_one(guarded_etcd: Etcd) -> None:
    async with EtcdClient(guarded_etcd.address()) as client:
        with pytest.raises(EtcdDenied, match="'user' and 'password_file'"):
            await client.get(Get("k"))


async def test_a_wrong_password_is_denied(guarded_etcd: Etcd, password_file: Path) -> None:
    password_file.write_text("wrong")

    async with EtcdClient(as_root(guarded_etcd.address(), password_file)) as client:
        with pytest.raises(EtcdDenied, match="invalid user ID or password"):
            await client.get(Get("k"))


async def test_each_verb_works_for_a_user(guarded_etcd: Etcd, password_file: Path) -> None:
    async with EtcdClient(as_root(guarded_etcd.address(), password_file)) as client:
        revision = (await client.get(Get("k"))).header.revision
        async with client.watch("/a/", revision) as events:
            await put(client, "/a/1")
            assert (await anext(events)).pair.key == "/a/1"
        lease = (await client.grant(30)).lease
        await client.renew(lease)
        await client.revoke(lease)
        (endpoint,) = client.endpoints
        assert (await client.status(endpoint)).is_leader
        assert len(await client.members()) == 1
        await client.compact(revision)
        await client.defragment(endpoint)
        assert await client.alarms() == []


async def test_a_watch_without_a_token_logs_in_first(guarded_etcd: Etcd, password_file: Path) -> None:
    address = as_root(guarded_etcd.address(), password_file)
    async with EtcdClient(address) as client, client.watch("/first/", 100) as events:
        for _ in range(100):
            await put(client, "/first/1")
        assert (await anext(events)).pair.key == "/first/1"


async def test_a_user_without_the_right_is_denied(guarded_etcd: Etcd, password_file: Path) -> None:
    async with EtcdClient(as_root(guarded_etcd.address(), password_file)) as client:
        await client.get(Get("k"))
        token = client._members[client.first].token
    guarded_etcd.members[0].post("/v3/auth/user/add", {"name": "guest", "password": PASSWORD}, token)
    address = attrs.evolve(guarded_etcd.address(), user="guest", password_file=str(password_file))

    async with EtcdClient(address) as client:
        with pytest.raises(EtcdDenied, match="permission denied"):
            await client.get(Get("k"))


async def test_a_password_that_was_changed_is_read_again(guarded_etcd: Etcd, password_file: Path) -> None:
    async with EtcdClient(as_root(guarded_etcd.address(), password_file)) as client:
        await put(client, "/changed")
        member = guarded_etcd.members[0]
        for password in ("second password", PASSWORD):
            token = client._members[client.first].token
            member.post("/v3/auth/user/changepw", {"name": "root", "password": password}, token)
            password_file.write_text(password)

            await put(client, "/changed")


async def test_users_may_be_asked_for_while_a_client_runs(
    tmp_path: Path, password_file: Path, etcd_binary: EtcdBinary
) -> None:
    with Etcd(tmp_path / "etcd", options=("--bcrypt-cost=4",), binary=etcd_binary) as etcd:
        async with EtcdClient(as_root(etcd.address(), password_file)) as client:
            await put(client, "/before")
            lease = (await client.grant(60)).lease
            etcd.ask_for_users(PASSWORD)

            await put(client, "/after")
            await client.renew(lease)


async def test_a_member_that_was_restarted_gives_a_new_token(
    tmp_path: Path, password_file: Path, etcd_binary: EtcdBinary
) -> None:
    with Etcd(tmp_path / "etcd", options=("--bcrypt-cost=4",), binary=etcd_binary) as etcd:
        etcd.ask_for_users(PASSWORD)
        async with EtcdClient(as_root(etcd.address(), password_file)) as client:
            await put(client, "/before")
            token = client._members[client.first].token
            etcd.members[0].stop()
            etcd.members[0].restart()

            await put(client, "/after")
            assert client._members[client.first].token not in ("", token)


async def test_a_user_who_is_not_asked_for_is_no_hindrance(etcd: TestEtcd, password_file: Path) -> None:
    async with EtcdClient(as_root(etcd.address(), password_file)) as client:
        await put(client, f"{etcd.prefix}k")


async def test_many_tasks_that_are_refused_at_a_time_log_in_once(password_file: Path) -> None:
    async with scripted_member() as member:
        member.replies |= {
            "/v3/kv/range": [BAD_TOKEN] * 10 + [FOUND],
            "/v3/auth/authenticate": [TOKEN],
        }
        address = as_root(address_of(member), password_file)
        async with EtcdClient(address) as client, trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(client.get, Get("k"))

    assert member.asked("/v3/auth/authenticate") == 1
    assert [each[1].get("authorization") for each in member.requests if each[0] == "/v3/kv/range"][-1] == "abc.1"


async def test_a_member_that_does_not_take_its_own_token_is_left_for_the_next(password_file: Path) -> None:
    async with scripted_member() as bad, scripted_member() as good:
        bad.replies |= {"/v3/kv/range": [BAD_TOKEN], "/v3/auth/authenticate": [TOKEN]}
        good.replies |= {"/v3/kv/range": [FOUND]}
        async with EtcdClient(as_root(address_of(bad, good), password_file)) as client:
            assert (await client.get(Get("k"))).header.revision == 7

    assert bad.asked("/v3/auth/authenticate") == 1


async def test_a_member_that_asks_for_a_token_and_for_no_users_is_no_endless_loop(password_file: Path) -> None:
    no_users = reply(412, b'{"error":"etcdserver: authentication is not enabled","code":9}')
    async with scripted_member() as member:
        member.replies |= {"/v3/kv/range": [BAD_TOKEN], "/v3/auth/authenticate": [no_users]}
        address = as_root(address_of(member, request_limit_s=1.0), password_file)
        async with EtcdClient(address) as client:
            with pytest.raises(EtcdUnknown, match="does not take its own token"):
                await client.get(Get("k"))


async def test_a_password_that_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="'password_file'"):
        EtcdClient(as_root(EtcdAddress(Etcd.nobodys_endpoints(1)), tmp_path / "none"))
