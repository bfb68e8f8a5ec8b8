"""What an operator may ask of the master, and how it ends when asked to. Source: lease.md 7."""

import attrs
import pytest

from common.lease.records import MemberRecord, OperatorRequest, WantedKind
from daemons.keeperd.clusterview import member_record
from daemons.keeperd.core.events import (
    DaemonsEnded,
    DaemonsFailed,
    DaemonsReady,
    Drain,
    Drained,
    DrainNoMore,
    FitnessChanged,
    KillDaemons,
    LeaseLost,
    LeaseRenewed,
    MayEnd,
    NodesTold,
    Release,
    RemoveWanted,
    SetDeadline,
    StopAsked,
    StopDaemons,
)
from daemons.keeperd.core.mastership import COPIES_LIMIT_S, SLACK_S, STOP_LIMIT_S, TAKER_LIMIT_S
from daemons.keeperd.core.states import State, View
from daemons.keeperd.identity import KeeperIdentity
from tests.unit.keeperd.playing import NEW, Play, maintenance, mastered, member, request, vacated

TO_N2 = request(WantedKind.SWITCHOVER, "n2")
TO_ANY = request(WantedKind.SWITCHOVER)


def wanting(play: Play, wanted: OperatorRequest | None, *others: MemberRecord) -> View:
    return attrs.evolve(play.view, wanted=wanted, others={record.node: record for record in others})


def renew_until(play: Play, end: float) -> None:
    while play.now < end:
        play.tell(LeaseRenewed(play.epoch, play.now), after=min(2.0, end - play.now))


def test_switchover_drains_then_ends_daemons_then_gives_the_lease_back() -> None:
    play = Play().master()
    epoch = play.epoch

    play.look(wanting(play, request(WantedKind.SWITCHOVER, "n2", kill=True), member("n2")))
    assert play.only(Drain) == Drain("n2", kill=True)
    assert play.at(State.LEAVING)
    assert not play.has(StopDaemons)
    play.tell(Drained(epoch))
    assert play.has(StopDaemons)
    assert not play.has(Release)
    play.tell(DaemonsEnded(epoch))

    assert play.only(Release).clean


def test_a_master_tells_what_it_waits_for_and_how_that_is_taken_back() -> None:
    play = Play().master()
    identity = KeeperIdentity("n1", "nonce", "boot", "")
    assert member_record(play.keeper, identity).reasons == ()

    play.look(wanting(play, TO_N2, member("n2")))
    (reason,) = member_record(play.keeper, identity).reasons
    play.tell(Drained(play.epoch))

    assert reason.startswith("makes way for 'n2'; the jobs that run here end first; take it back:")
    assert member_record(play.keeper, identity).reasons == ()


def test_leaving_master_renews_its_lease() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))

    renew_until(play, play.now + 600)

    assert play.at(State.LEAVING)
    assert play.has(SetDeadline)


def released() -> Play:
    """A master that has made way for any other, and has given its lease back."""
    play = Play().master()
    epoch = play.epoch
    play.look(wanting(play, TO_ANY, member("n2")))
    play.tell(Drained(epoch))
    play.tell(DaemonsEnded(epoch))
    return play


def test_old_master_leaves_the_others_time_and_then_campaigns_itself() -> None:
    play = released()
    released_at = play.now
    play.look(vacated(play.view, clean=True))
    assert play.at(State.FOLLOW)

    play.wait()
    assert play.now == released_at + TAKER_LIMIT_S
    play.win()
    play.tell(NodesTold(play.epoch))
    play.tell(DaemonsReady(play.epoch))

    refusal = play.only(RemoveWanted).refusal
    assert "no other node has taken over within 10 s" in refusal


def test_old_master_leaves_the_others_time_although_its_own_key_is_seen_once_more() -> None:
    play = released()
    released_at = play.now

    # this look was quicker than the removal of the key
    play.look()
    play.look(vacated(play.view, clean=True))
    play.wait()

    assert play.now == released_at + TAKER_LIMIT_S


def test_old_master_follows_the_one_that_took_over() -> None:
    play = Play().master()
    epoch = play.epoch
    play.look(wanting(play, TO_N2, member("n2")))
    play.tell(Drained(epoch))
    play.tell(DaemonsEnded(epoch))

    play.look(attrs.evolve(mastered(vacated(play.view, clean=True), "n2", epoch + 1), synced=0))

    # its files are compared first
    assert play.at(State.BARRED)
    assert play.keeper.made_way_until == 0.0


def test_fulfilled_request_is_removed_when_the_new_master_serves() -> None:
    view = attrs.evolve(vacated(mastered(NEW, "n2", 1)), wanted=request(WantedKind.SWITCHOVER, "n1"))
    play = Play().taking(view)
    assert not play.has(RemoveWanted)
    play.tell(NodesTold(play.epoch))

    play.tell(DaemonsReady(play.epoch))

    assert play.only(RemoveWanted) == RemoveWanted(view.wanted or TO_ANY)


def test_fulfilled_request_that_is_still_there_is_not_obeyed_again() -> None:
    view = attrs.evolve(vacated(mastered(NEW, "n2", 1)), wanted=TO_ANY)
    play = Play().master(view)
    play.look(wanting(play, TO_ANY, member("n2")))

    assert play.at(State.MASTER)
    assert play.only(RemoveWanted).refusal == ""


def test_next_request_is_obeyed() -> None:
    play = Play().master(attrs.evolve(vacated(mastered(NEW, "n2", 1)), wanted=TO_ANY))

    play.look(wanting(play, request(WantedKind.SWITCHOVER, "n2", nonce="w2"), member("n2")))

    assert play.at(State.LEAVING)


@pytest.mark.parametrize(
    ("wanted", "others", "text"),
    [
        (request(WantedKind.SWITCHOVER, "n1"), (member("n2"),), "'n1' is the master already"),
        (TO_N2, (), "'n2' is no candidate whose keeperd runs"),
        (TO_N2, (member("n2", "stale"),), "'n2' may not become the master: stale"),
        (TO_ANY, (), "no other node may become the master: none lives"),
        (TO_ANY, (member("n2", "stale"), member("n3", priority=0)), "n2: stale; n3: priority 0"),
        (request(WantedKind.TAKEOVER, "n2"), (member("n2"),), "'n1' is the master and renews its lease"),
    ],
)
def test_request_that_cannot_be_fulfilled_is_refused_with_the_reason(
    wanted: OperatorRequest, others: tuple[MemberRecord, ...], text: str
) -> None:
    play = Play().master()

    play.look(wanting(play, wanted, *others))

    assert text in play.only(RemoveWanted).refusal
    assert play.at(State.MASTER)


def test_a_node_whose_copies_are_not_compared_yet_is_waited_for() -> None:
    play = Play().master()
    not_yet = attrs.evolve(member("n2", "no later master has compared its files"), lacks_copies=True)

    play.look(wanting(play, TO_N2, not_yet))
    assert play.at(State.MASTER)
    assert not play.has(RemoveWanted)
    play.tell(LeaseRenewed(play.epoch, play.now))
    play.look(wanting(play, TO_N2, member("n2")), after=2.0)

    assert play.at(State.LEAVING)


def test_any_node_is_waited_for_while_one_lacks_copies_only() -> None:
    play = Play().master()
    not_yet = attrs.evolve(member("n2", "stale"), lacks_copies=True)

    play.look(wanting(play, TO_ANY, not_yet, member("n3", "no room")))
    assert not play.has(RemoveWanted)
    play.look(wanting(play, TO_ANY, member("n3", "no room")))

    assert "n3: no room" in play.only(RemoveWanted).refusal


def test_a_node_that_never_gets_its_copies_is_waited_for_up_to_a_minute() -> None:
    play = Play().master()
    asked_at = play.now
    view = wanting(play, TO_N2, attrs.evolve(member("n2", "stale"), lacks_copies=True))
    play.look(view)
    while play.now < asked_at + COPIES_LIMIT_S - 2.0:
        play.tell(LeaseRenewed(play.epoch, play.now), after=2.0)
        play.look(view)
        assert not play.has(RemoveWanted)

    play.tell(LeaseRenewed(play.epoch, play.now), after=2.0)
    play.look(view)

    assert play.only(RemoveWanted).refusal.endswith("stale; that did not end within 60 s")
    assert play.at(State.MASTER)


def test_a_node_that_turns_out_to_lack_copies_while_the_master_drains_is_waited_for() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))

    play.look(wanting(play, TO_N2, attrs.evolve(member("n2", "stale"), lacks_copies=True)))
    assert play.at(State.MASTER)
    assert play.has(DrainNoMore)
    assert not play.has(RemoveWanted)
    play.look(wanting(play, TO_N2, member("n2")))

    assert play.at(State.LEAVING)


def test_a_request_with_a_limit_is_taken_back_although_whoever_asked_has_gone() -> None:
    play = Play().master()
    limited = attrs.evolve(TO_N2, limit_s=30.0)
    view, asked_at = wanting(play, limited, member("n2")), play.now
    play.look(view)
    assert play.at(State.LEAVING)
    renew_until(play, asked_at + 30.0)
    play.look(view)
    assert play.at(State.LEAVING)

    renew_until(play, asked_at + 30.0 + SLACK_S)
    play.look(view)

    assert play.at(State.MASTER)
    assert play.has(DrainNoMore)
    assert play.only(RemoveWanted) == RemoveWanted(limited, "the mastership was not moved within 30 s")


def test_a_node_that_was_the_master_says_that_it_lacks_copies_only() -> None:
    play = Play().master()
    epoch = play.epoch
    play.look(wanting(play, TO_N2, member("n2")))
    play.tell(Drained(epoch))
    play.tell(DaemonsEnded(epoch))
    taken = attrs.evolve(mastered(vacated(play.view, clean=True), "n2", epoch + 1), synced=0)
    identity = KeeperIdentity("n1", "nonce", "boot", "")

    play.look(taken)
    assert member_record(play.keeper, identity).lacks_copies
    play.tell(FitnessChanged(("no room",)))
    assert not member_record(play.keeper, identity).lacks_copies
    play.tell(FitnessChanged(()))
    play.look(attrs.evolve(taken, synced=epoch + 1))

    assert not member_record(play.keeper, identity).lacks_copies


def test_node_without_failover_may_be_named() -> None:
    play = Play().master()

    play.look(wanting(play, TO_N2, member("n2", "priority 0: it never becomes the master by itself", priority=0)))

    assert play.at(State.LEAVING)


@pytest.mark.parametrize("is_full", [True, False])
def test_switchover_is_refused_when_nobody_could_take_over(is_full: bool) -> None:
    play = Play().master()
    view = wanting(play, TO_N2, member("n2"))

    play.look(attrs.evolve(view, is_full=is_full, maintenance=maintenance(1, on=not is_full)))

    assert ("etcd is full" if is_full else "maintenance is on") in play.only(RemoveWanted).refusal


def test_shaky_master_leaves_a_request_for_later() -> None:
    play = Play().master()
    play.wait()

    play.look(wanting(play, TO_N2, member("n2")))
    assert play.at(State.SHAKY)
    play.tell(LeaseRenewed(play.epoch, play.now))
    play.look()

    assert play.at(State.LEAVING)


def test_request_that_is_taken_back_ends_the_draining() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))

    play.look(wanting(play, None, member("n2")))

    assert play.at(State.MASTER)
    assert play.has(DrainNoMore)


def test_target_that_dies_while_the_master_drains_ends_the_draining() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2"), member("n3")))

    play.look(wanting(play, TO_N2, member("n3")))

    assert play.at(State.MASTER)
    assert play.has(DrainNoMore)
    assert "'n2' is no candidate" in play.only(RemoveWanted).refusal


def test_daemons_that_are_being_ended_are_not_called_back() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))
    play.tell(Drained(play.epoch))

    play.look(wanting(play, None, member("n2")))

    assert play.at(State.LEAVING)


def test_daemon_that_dies_while_it_drains_ends_the_others() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))

    play.tell(DaemonsFailed(play.epoch, "luxid has ended"))

    assert play.has(StopDaemons)
    assert play.at(State.LEAVING)


def test_lease_that_is_lost_while_leaving_stops_all() -> None:
    play = Play().master()
    play.look(wanting(play, TO_N2, member("n2")))

    play.tell(LeaseLost(play.epoch))

    assert play.at(State.STOPPING)


def test_leaving_master_without_renewals_goes_by_its_clock() -> None:
    play = Play().master()
    won_at = play.now
    play.look(wanting(play, TO_N2, member("n2")))

    play.wait()

    assert (play.state, play.now) == (State.STOPPING, won_at + 6.0)


def test_ended_keeper_ends_its_daemons_in_twenty_seconds_and_gives_the_lease_back() -> None:
    play = Play().master()
    epoch, asked_at = play.epoch, play.now
    play.tell(StopAsked())
    assert play.has(StopDaemons)
    assert not play.has(MayEnd)

    renew_until(play, asked_at + STOP_LIMIT_S)
    assert play.has(KillDaemons)
    assert KillDaemons not in {type(act) for act in play.acts[: -len(play.latest)]}
    play.tell(DaemonsEnded(epoch))

    assert [type(act) for act in play.latest if isinstance(act, Release | MayEnd)] == [Release, MayEnd]


def test_keeper_that_is_ended_before_it_started_anything_gives_the_lease_back() -> None:
    play = Play().taking()

    play.tell(StopAsked())

    assert [type(act) for act in play.latest if isinstance(act, Release | MayEnd)] == [Release, MayEnd]


def test_keeper_that_is_ended_while_it_stops_ends_after_that() -> None:
    play = Play().master()
    epoch = play.epoch
    play.tell(LeaseLost(epoch))

    play.tell(StopAsked())
    assert not play.has(MayEnd)
    play.tell(DaemonsEnded(epoch))

    assert play.has(MayEnd)
