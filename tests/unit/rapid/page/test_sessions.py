"""Sessions end by themselves, with the rights of their owner, and when they are closed."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from common.access import Role
from common.webaccess.rights import Principal, Rights
from daemons.rapid.page import visitors as module
from daemons.rapid.page.visitors import IDLE_S, LONGEST_S, Sessions

JACK = Principal("jack", Rights(Role.OPERATE), stamp="1")


class World:
    """A clock, and what the users file says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jack: Principal | None = JACK
        self.sessions = Sessions(lambda _: self.jack, lambda: self.now)


@pytest.fixture
def world() -> World:
    return World()


def test_a_session_names_its_owner(world: World) -> None:
    session_id = world.sessions.open(JACK)

    found = world.sessions.find(session_id)

    assert found is not None
    assert found.caller == JACK
    assert world.sessions.find("x") is None


def test_each_session_has_an_id_that_cannot_be_guessed(world: World) -> None:
    ids = {world.sessions.open(JACK) for _ in range(100)}

    assert len(ids) == 100
    assert min(map(len, ids)) >= 43


def test_an_unused_session_ends(world: World) -> None:
    session_id = world.sessions.open(JACK)
    world.now = IDLE_S - 1
    assert world.sessions.find(session_id) is not None
    world.now += IDLE_S - 1
    found = world.sessions.find(session_id)
    assert found is not None
    world.now += IDLE_S

    assert world.sessions.find(session_id) is None
    assert found.over.is_set()
    assert len(world.sessions) == 0


def test_no_session_lasts_for_ever(world: World) -> None:
    session_id = world.sessions.open(JACK)
    while world.now < LONGEST_S:
        assert world.sessions.find(session_id) is not None
        world.now += IDLE_S / 2

    assert world.sessions.find(session_id) is None


def test_a_session_has_the_rights_of_now(world: World) -> None:
    session_id = world.sessions.open(JACK)
    world.jack = Principal("jack", Rights(Role.READ), stamp="1")

    found = world.sessions.find(session_id)

    assert found is not None
    assert found.caller.rights.role is Role.READ


def test_the_session_of_a_removed_user_is_over(world: World) -> None:
    session_id = world.sessions.open(JACK)
    found = world.sessions.find(session_id)
    world.jack = None

    assert world.sessions.find(session_id) is None
    assert found is not None
    assert found.over.is_set()


def test_a_closed_session_is_over(world: World) -> None:
    session_id = world.sessions.open(JACK)

    world.sessions.close(session_id)
    world.sessions.close(session_id)

    assert world.sessions.find(session_id) is None


@pytest.mark.trio
async def test_an_open_page_keeps_its_session_but_not_for_ever(autojump_clock: MockClock) -> None:
    sessions = Sessions(lambda caller: caller, trio.current_time)
    began = trio.current_time()

    await sessions.wait_until_over(sessions.open(JACK))

    assert LONGEST_S <= trio.current_time() - began < LONGEST_S + 61


@pytest.mark.trio
async def test_an_open_page_ends_at_once_when_its_session_is_closed(autojump_clock: MockClock) -> None:
    sessions = Sessions(lambda caller: caller, trio.current_time)
    session_id = sessions.open(JACK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sessions.wait_until_over, session_id)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        sessions.close(session_id)

    assert trio.current_time() == began


def test_too_many_sessions_cost_the_one_that_was_unused_longest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    first = world.sessions.open(JACK)
    world.now = 1
    second = world.sessions.open(JACK)
    world.now = 2
    world.sessions.find(first)

    third = world.sessions.open(JACK)

    assert [world.sessions.find(each) is not None for each in (first, second, third)] == [True, False, True]
