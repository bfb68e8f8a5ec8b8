"""Sessions end by themselves, with the rights of their owner, and when they are closed; the next rapid has them."""

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from common.access import Role
from common.webaccess.rights import Principal, Rights
from common.webaccess.sessions import KeptSession, key_of
from daemons.rapid.page import sessions as module
from daemons.rapid.page.sessions import IDLE_S, LONGEST_S, USES_S, Sessions

JACK = Principal("jack", Rights(Role.OPERATE), stamp="1")
# seconds since the epoch, when the clock begins
DAY = 1e9


class World:
    """A clock, and what the users file says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jack: Principal | None = JACK
        self.sessions = self.next_rapid()

    def next_rapid(self, day: float = 0.0) -> Sessions:
        """One that has no sessions yet. Args: day: by how much the time of the day is ahead of the clock."""
        return Sessions(lambda _: self.jack, lambda: self.now, lambda: DAY + day + self.now)


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
    sessions = Sessions(lambda _: JACK, trio.current_time)
    began = trio.current_time()

    await sessions.wait_until_over(sessions.open(JACK))

    assert LONGEST_S <= trio.current_time() - began < LONGEST_S + 61


@pytest.mark.trio
async def test_an_open_page_ends_at_once_when_its_session_is_closed(autojump_clock: MockClock) -> None:
    sessions = Sessions(lambda _: JACK, trio.current_time)
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


def kept(world: World, *ids: str) -> tuple[KeptSession, ...]:
    """What wconfd has after it was told of these."""
    return world.sessions.changes(map(key_of, ids)).noted


def test_what_is_kept_opens_no_session(world: World) -> None:
    session_id = world.sessions.open(JACK)

    (row,) = kept(world, session_id)

    assert session_id not in str(row)
    assert JACK.stamp not in (row.proof, row.key)
    assert world.sessions.find(row.key) is None
    assert world.sessions.find(row.proof) is None


def test_the_next_rapid_has_the_sessions_with_their_age(world: World) -> None:
    session_id = world.sessions.open(JACK)
    world.now = 3600.0
    assert world.sessions.find(session_id) is not None
    after = world.next_rapid()

    after.take(kept(world, session_id))

    found = after.find(session_id)
    assert found is not None
    assert (found.caller, found.opened_at, found.used_at) == (JACK, 0.0, 3600.0)
    while world.now < LONGEST_S:
        assert after.find(session_id) is not None
        world.now += USES_S
    assert after.find(session_id) is None


def test_one_that_was_idle_while_rapid_was_away_is_over_and_wconfd_is_told(world: World) -> None:
    session_id = world.sessions.open(JACK)
    rows = kept(world, session_id)
    world.now = IDLE_S
    after = world.next_rapid()

    after.take(rows)

    assert after.find(session_id) is None
    assert after.changes([key_of(session_id)]).ended == (key_of(session_id),)


def test_times_ahead_of_the_day_make_no_session_younger_than_now(world: World) -> None:
    session_id = world.sessions.open(JACK)
    after = world.next_rapid(day=-3600.0)

    after.take(kept(world, session_id))

    found = after.find(session_id)
    assert found is not None
    assert found.opened_at == world.now


@pytest.mark.parametrize("now", [None, Principal("jack", Rights(Role.OPERATE), stamp="2")], ids=["removed", "password"])
def test_the_next_rapid_asks_who_the_user_is_now(world: World, now: Principal | None) -> None:
    session_id = world.sessions.open(JACK)
    after = world.next_rapid()
    after.take(kept(world, session_id))
    world.jack = now

    assert after.find(session_id) is None


def test_what_was_closed_here_is_not_brought_back_by_what_wconfd_had_before(world: World) -> None:
    session_id = world.sessions.open(JACK)
    rows = kept(world, session_id)
    world.sessions.take(rows)
    world.sessions.close(session_id)

    world.sessions.take(rows)

    assert world.sessions.find(session_id) is None


def test_what_was_closed_elsewhere_is_over_here_and_what_is_not_there_yet_is_not(world: World) -> None:
    first, second = world.sessions.open(JACK), world.sessions.open(JACK)
    world.sessions.take(kept(world, first))
    found = world.sessions.find(first)

    world.sessions.take(())

    assert found is not None
    assert found.over.is_set()
    assert world.sessions.find(first) is None
    assert world.sessions.find(second) is not None
