"""Who gets a connection (protocol.serving.bounds): bounds per user and in all, with places kept for operators."""

import pytest

from common.errors import TooBusy
from protocol.serving.bounds import ROOT, STRANGERS, ConnectionCounts, ConnectionLimits

OWN, ALICE, BOB, CAROL = 100, 1001, 1002, 1003


def admission(own_uid: int = OWN) -> ConnectionCounts:
    return ConnectionCounts(ConnectionLimits(in_all=20, per_user=6, reserve=4), own_uid)


def fill(place: ConnectionCounts, uid: int) -> int:
    """Let a user enter until it is refused; how often it could."""
    count = 0
    while count < 100:
        try:
            place.enter(uid)
        except TooBusy:
            return count
        count += 1
    raise AssertionError("nothing was refused")


def test_one_user_gets_its_share_and_others_theirs() -> None:
    place = admission()

    assert [fill(place, uid) for uid in (ALICE, BOB)] == [6, 6]
    with pytest.raises(
        TooBusy, match=r"this daemon has 6 connections of user 1001, of at most 6; close some, or raise"
    ):
        place.enter(ALICE)


def test_places_are_kept_for_the_daemons_user_and_for_root() -> None:
    place = admission()
    assert [fill(place, uid) for uid in (ALICE, BOB, CAROL)] == [6, 6, 4]

    assert fill(place, OWN) == 2
    assert fill(place, ROOT) == 2
    with pytest.raises(TooBusy, match="this daemon has 20 connections, of at most 20 for user 0; close some"):
        place.enter(ROOT)


def test_the_daemons_user_is_not_bound_by_the_share_of_a_user() -> None:
    assert fill(admission(), OWN) == 18
    assert fill(admission(own_uid=ROOT), ROOT) == 20


def test_all_who_may_not_call_have_the_share_of_one_user() -> None:
    place = admission()

    assert fill(place, STRANGERS) == 6
    with pytest.raises(TooBusy, match="this daemon has 6 connections of users who may not call, of at most 6"):
        place.enter(STRANGERS)
    assert fill(place, ALICE) == 6


def test_whoever_leaves_makes_room() -> None:
    place = admission()
    fill(place, ALICE)

    place.leave(ALICE)

    assert fill(place, ALICE) == 1
    assert place.total == 6


def test_bounds_follow_the_descriptors_that_there_are() -> None:
    limits = ConnectionLimits(in_all=2000, per_user=500, reserve=32)

    assert limits.within(10_000) == limits
    assert limits.within(100) == ConnectionLimits(100, 100, 32)
    assert limits.within(10) == ConnectionLimits(10, 10, 5)
