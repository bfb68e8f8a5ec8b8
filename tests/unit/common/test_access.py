"""Roles, and the rows of the daemons' tables that need them (DESIGN section 4)."""

import inspect
from typing import Any, cast

import attrs
import orjson
import pytest
import trio

from common.access import Access, Grantee, Role, check_role, grant
from common.errors import Denied
from daemons.luxid import rpc as luxid
from daemons.wconfd import rpc as wconfd
from protocol.messages import Request
from protocol.peer import Peer
from protocol.serving.route import Route
from protocol.serving.service import Service

LOOKS = ("Query", "Read", "List", "Explain", "Subscribe", "Summarize", "WaitForJobChange")
WCONFD_LOOKS = ("list", "explain", "echo", "verify", "subscribe", "has", "read", "get", "config", "compute")


class Anything:
    """Stands in for a handler object: whatever is asked of it is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *_: Any) -> None:
        pass


def table(routes: Any) -> dict[str, Role]:
    parts = [Anything() for _ in inspect.signature(routes).parameters]
    return dict(Service(routes(*cast(Any, parts))).roles)


def luxid_table() -> dict[str, Role]:
    handlers = luxid.LuxidHandlers(*cast(Any, [Anything() for _ in attrs.fields(luxid.LuxidHandlers)]))
    return dict(Service(luxid.routes(handlers)).roles)


def test_each_method_of_luxid_needs_a_role_and_only_those_that_look_need_the_smallest() -> None:
    roles = luxid_table()

    assert len(roles) > 25
    for method, role in roles.items():
        assert (role is Role.READ) is method.startswith(LOOKS), method
        assert Role.READ <= role <= Role.ADMIN, method


def test_each_method_of_wconfd_that_does_not_only_look_is_for_those_with_all_rights() -> None:
    roles = table(wconfd.routes)

    assert len(roles) > 50
    # of rapid's user, who may only read; the handlers refuse others (test_session_handlers.py)
    assert [roles.pop(each) for each in ("followSessions", "changeSessions")] == [Role.READ] * 2
    for method, role in roles.items():
        assert (role is Role.FULL) is not method.lower().startswith(WCONFD_LOOKS), method
        assert role > Role.NONE, method


def test_the_highest_of_several_roles_counts_in_whatever_order_they_are_given() -> None:
    access = grant(
        5,
        {
            Role.ADMIN: [Grantee(10)],
            Role.READ: [Grantee(10), Grantee(20, is_group=True), Grantee(11)],
            Role.SUBMIT: [Grantee(20, is_group=True)],
        },
        trusted=[30],
    )

    assert (access.role_of(10, ()), access.role_of(11, ()), access.role_of(11, (20,))) == (
        Role.ADMIN,
        Role.READ,
        Role.SUBMIT,
    )
    assert [access.role_of(uid, ()) for uid in (0, 5, 12)] == [Role.FULL, Role.FULL, Role.NONE]
    assert [access.may_speak_for_others(uid) for uid in (0, 5, 30, 10)] == [True, True, True, False]


def test_a_daemon_with_a_user_of_its_own_may_read_whatever_groups_it_is_in() -> None:
    given = {Role.FULL: [Grantee(20, is_group=True), Grantee(40)], Role.ADMIN: [Grantee(21, is_group=True)]}
    access = attrs.evolve(grant(5, given), apart=frozenset({40, 41}), gateway=40)

    assert [access.role_of(uid, (20, 21)) for uid in (40, 41, 42)] == [Role.READ, Role.READ, Role.FULL]
    # to submit for any user is more than to call in the names of HTTP users
    assert not access.may_speak_for_others(40)
    # a cluster of one user
    assert attrs.evolve(access, own_uid=40).role_of(40, ()) is Role.FULL


def test_nobody_but_root_and_the_daemons_user_has_a_role_unless_it_is_given() -> None:
    assert [Access(5).role_of(uid, (0, 5)) for uid in (0, 5, 6)] == [Role.FULL, Role.FULL, Role.NONE]


def test_the_refusal_names_the_role_that_is_missing_and_the_one_there_is() -> None:
    with pytest.raises(Denied, match=r"^drain needs the role 'operate', and user 7 has only 'submit'; .*'\[access\]'"):
        check_role(Role.SUBMIT, Role.OPERATE, 7, "drain")

    check_role(Role.OPERATE, Role.OPERATE, 7, "drain")


@attrs.frozen
class Drain(Request[bool]):
    METHOD = "drain"


@pytest.mark.trio
@pytest.mark.parametrize("role", list(Role))
async def test_the_service_refuses_before_it_reads_arguments_or_asks_the_handler(role: Role) -> None:
    asked = []

    async def drain(_: Drain, __: Peer) -> bool:
        await trio.lowlevel.checkpoint()
        asked.append(role)
        return True

    service = Service([Route(Drain, drain, role=Role.OPERATE)])
    peer = Peer(1, 7, 7, role=role)

    good = orjson.loads((await service.answer(b'{"method":"drain","args":[]}', peer)).payload or b"")
    bad = orjson.loads((await service.answer(b'{"method":"drain","args":[1,2]}', peer)).payload or b"")

    may = role >= Role.OPERATE
    assert (good["success"], bool(asked)) == (may, may)
    assert may or (good["error"]["code"], bad["error"]["code"]) == ("denied", "denied")
    assert not bad["success"]
