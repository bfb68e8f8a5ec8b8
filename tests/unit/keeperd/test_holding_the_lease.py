"""The master goes by its own clock, counted from when a keepalive was sent. Source: lease.md 7 and 8."""

import attrs
import pytest

from common.lease.records import MemberRecord
from daemons.keeperd.core.events import (
    Campaign,
    CampaignWon,
    DaemonsEnded,
    DaemonsFailed,
    DaemonsReady,
    DropLease,
    Due,
    EtcdSilent,
    FenceOld,
    FenceRefused,
    FitnessChanged,
    KillDaemons,
    LeaseLost,
    LeaseRenewed,
    NodesTold,
    OwnNodeSilent,
    Release,
    Remember,
    Renew,
    SetDeadline,
    StartDaemons,
    StopDaemons,
    Tell,
    TellNodes,
)
from daemons.keeperd.core.keeper import EndCause
from daemons.keeperd.core.states import NodeMemory, State, View
from tests.unit.keeperd.playing import NEW, Play, last, mastered, member, vacated


def seen_by(play: Play, *others: MemberRecord) -> View:
    return attrs.evolve(play.view, others={record.node: record for record in others})


def test_daemons_are_started_only_when_all_nodes_were_told() -> None:
    play = Play().taking()
    kinds = [type(act) for act in play.latest]

    # stored, renewed, and the deadline set, before any node hears of it
    assert kinds[:4] == [Remember, Renew, SetDeadline, TellNodes]
    assert not play.has(StartDaemons)

    play.tell(NodesTold(play.epoch, silent=("n3",)))

    assert play.only(StartDaemons).fence.epoch == play.epoch


def test_deadline_counts_from_the_sending_of_the_keepalive() -> None:
    play = Play().master()
    play.tell(LeaseRenewed(play.epoch, sent_at=play.now + 1.0), after=1.4)

    assert play.only(SetDeadline).until == pytest.approx(play.now - 0.4 + 9.0)


def test_later_told_earlier_sent_keepalive_moves_nothing_back() -> None:
    play = Play().master()
    start = play.now
    play.tell(LeaseRenewed(play.epoch, sent_at=start + 2.0), after=2.1)

    play.tell(LeaseRenewed(play.epoch, sent_at=start + 1.0), after=0.1)

    assert not play.has(SetDeadline)
    assert play.keeper.held is not None
    assert play.keeper.held.renewed_at == start + 2.0


def test_lease_that_etcd_made_longer_has_its_own_times() -> None:
    play = Play().campaigning().win(ttl_s=20.0)

    assert play.only(SetDeadline).until == pytest.approx(play.now + 18.0)
    assert play.only(Renew).times.keepalive_s == 4.0


def test_silence_makes_it_shaky_then_stops_then_kills_then_loses_it() -> None:
    play = Play().master()
    won_at = play.now
    seen = []

    while not play.at(State.LOST):
        play.wait()
        seen.append((round(play.now - won_at, 2), play.state, {type(act) for act in play.latest}))

    assert [(at, state) for at, state, _ in seen] == [
        (3.33, State.SHAKY),
        (6.0, State.STOPPING),
        (8.0, State.STOPPING),
        (9.0, State.LOST),
    ]
    assert {DropLease, StopDaemons} <= seen[1][2]
    assert SetDeadline not in seen[1][2]
    assert KillDaemons in seen[2][2]
    assert {SetDeadline, KillDaemons} <= seen[3][2]
    assert Release not in {type(act) for act in play.acts}


def test_health_check_refuses_from_the_stop_on() -> None:
    play = Play().master()
    won_at = play.now

    assert play.keeper.may_serve(won_at + 5.9)
    # a load balancer asks between two events
    assert not play.keeper.may_serve(won_at + 6.0)
    assert play.keeper.valid_s(won_at + 8.0) == pytest.approx(1.0)


def test_shaky_master_that_is_renewed_is_the_master_again() -> None:
    play = Play().master()
    play.wait()
    assert play.at(State.SHAKY)

    play.tell(LeaseRenewed(play.epoch, play.now))

    assert play.at(State.MASTER)


def test_keepalive_answered_after_the_deadline_does_not_keep_the_mastership() -> None:
    play = Play().master()
    won_at = play.now

    play.tell(LeaseRenewed(play.epoch, sent_at=won_at + 5.0), after=9.0)

    assert play.at(State.LOST)
    assert [act.until for act in play.latest if isinstance(act, SetDeadline)] == [0.0]


def test_suspended_machine_loses_it_before_anything_else() -> None:
    play = Play().master()

    play.look(after=3600.0)

    assert play.at(State.LOST)
    assert [type(act) for act in play.latest][:4] == [Tell, SetDeadline, DropLease, KillDaemons]
    assert play.keeper.valid_s(play.now) is None


@pytest.mark.parametrize(
    ("is_refused", "cause"), [(False, EndCause.LOST), (True, EndCause.REFUSED)], ids=["lease gone", "write refused"]
)
def test_lost_lease_ends_all_at_once(is_refused: bool, cause: EndCause) -> None:
    play = Play().master()

    play.tell(FenceRefused(play.epoch) if is_refused else LeaseLost(play.epoch))

    assert (play.state, play.keeper.cause) == (State.STOPPING, cause)
    assert play.only(SetDeadline).until == 0.0
    assert play.has(DropLease)
    assert play.has(StopDaemons)


def test_key_of_another_one_is_no_longer_ours() -> None:
    play = Play().master()

    play.look(mastered(vacated(play.view), "n2", 7), after=1.0)

    assert (play.state, play.keeper.cause) == (State.STOPPING, EndCause.LOST)


def test_own_name_with_another_nonce_is_not_ours() -> None:
    play = Play().master()

    play.look(mastered(vacated(play.view), "n1", 7, nonce="of a copy"), after=1.0)

    assert play.at(State.STOPPING)


def test_keeper_does_not_take_the_key_of_its_dead_predecessor() -> None:
    memory = NodeMemory(cluster_id="c", revision=11, epoch=1, own_epoch=1)

    play = Play(memory=memory).idle(mastered(NEW, "n1", 1, nonce="of a dead process"))

    assert play.at(State.FOLLOW)
    assert play.keeper.held is None


def test_lease_is_given_back_only_when_nothing_lives() -> None:
    play = Play().master()
    epoch = play.epoch
    play.tell(LeaseLost(epoch))
    assert not play.has(Release)

    play.tell(DaemonsEnded(epoch))

    assert play.only(Release).clean
    assert play.at(State.FOLLOW)


def test_late_word_of_an_earlier_end_gives_nothing_back() -> None:
    play = Play().master()
    play.tell(LeaseLost(play.epoch))

    play.tell(DaemonsEnded(play.epoch - 1))

    assert play.at(State.STOPPING)


def test_lost_mastership_kills_again_until_nothing_lives() -> None:
    play = Play().master()
    epoch = play.epoch
    play.tell(Due(), after=10.0)
    assert play.at(State.LOST)
    for _ in range(3):
        play.wait()
        assert play.has(KillDaemons)
        assert play.at(State.LOST)

    play.tell(DaemonsEnded(epoch))

    assert not play.only(Release).clean
    assert play.at(State.FOLLOW)


def test_stopping_keeper_renews_no_more() -> None:
    play = Play().master()
    epoch, won_at = play.epoch, play.now
    play.wait()
    play.wait()
    assert play.at(State.STOPPING)

    play.tell(LeaseRenewed(epoch, play.now))

    assert not play.has(SetDeadline)
    play.tell(Due(), after=won_at + 9.0 - play.now)
    assert play.at(State.LOST)


def test_silent_etcd_alone_changes_nothing_for_the_master() -> None:
    play = Play().master()

    play.tell(EtcdSilent())

    assert play.at(State.MASTER)


def test_corrupt_etcd_ends_the_mastership_in_time() -> None:
    play = Play().master()

    play.tell(EtcdSilent(is_corrupt=True))

    assert (play.state, play.keeper.cause) == (State.STOPPING, EndCause.CORRUPT)
    assert not play.has(SetDeadline)


def test_full_etcd_does_not_end_the_mastership() -> None:
    play = Play().master()

    play.look(attrs.evolve(play.view, is_full=True), after=1.0)

    assert play.at(State.MASTER)


def test_campaign_whose_answer_came_too_late_starts_nothing() -> None:
    play = Play().campaigning().win(late_s=6.0)

    assert play.at(State.FOLLOW)
    assert play.has(Release)
    assert StartDaemons not in {type(act) for act in play.acts}


def test_win_that_is_told_to_a_keeper_that_asked_for_nothing_is_dropped() -> None:
    play = Play().campaigning().win()
    won = CampaignWon(play.keeper.held.fence, play.keeper.held.record, play.now)  # type: ignore[union-attr]
    other = Play().idle(mastered(NEW, "n2", 1))

    other.tell(won)

    assert other.keeper.held is None


def test_node_that_knows_a_higher_epoch_is_outdone_by_the_next_campaign() -> None:
    play = Play().taking()
    play.tell(NodesTold(play.epoch, higher=40))
    assert play.at(State.FOLLOW)
    assert play.has(Release)
    assert StartDaemons not in {type(act) for act in play.acts}

    play.look(vacated(play.view, clean=True))

    assert play.only(Campaign).above == 40


def test_second_giving_up_within_a_minute_waits() -> None:
    play = Play().taking()
    play.tell(NodesTold(play.epoch, higher=40))
    play.look(vacated(play.view, clean=True))
    play.win()
    first = play.now

    play.tell(NodesTold(play.epoch, higher=50), after=1.0)
    play.look(vacated(play.view, clean=True))

    assert play.at(State.BARRED)
    play.wait()
    assert play.now == first + 60.0


def test_master_that_hears_of_a_higher_epoch_ends() -> None:
    play = Play().master()

    play.tell(NodesTold(play.epoch, higher=40))

    assert (play.state, play.keeper.cause) == (State.STOPPING, EndCause.HIGHER)


def test_take_over_with_a_silent_node_daemon_of_its_own_is_left_to_another_node_after_a_while() -> None:
    play = Play().taking()
    play.look(seen_by(play, member("n2")))

    play.tell(OwnNodeSilent(play.epoch, silent_s=9.0))
    assert play.at(State.TAKING)
    play.tell(OwnNodeSilent(play.epoch, silent_s=10.0))

    assert play.at(State.BARRED)
    assert play.has(Release)
    assert StartDaemons not in {type(act) for act in play.acts}
    play.look(vacated(play.view, clean=True))
    play.wait()
    assert play.has(Campaign)


def test_take_over_that_nobody_else_can_do_waits_for_its_own_node_daemon() -> None:
    play = Play().taking()
    play.look(seen_by(play, member("n2", priority=0)))

    play.tell(OwnNodeSilent(play.epoch, silent_s=600.0))

    assert play.at(State.TAKING)
    play.tell(NodesTold(play.epoch))
    assert play.has(StartDaemons)


def test_silence_of_the_node_daemon_once_the_daemons_run_changes_nothing() -> None:
    play = Play().master()
    play.look(seen_by(play, member("n2")))

    play.tell(OwnNodeSilent(play.epoch, silent_s=600.0))

    assert play.at(State.MASTER)


def test_old_master_is_fenced_unless_it_has_ended_cleanly() -> None:
    view = mastered(NEW, "n2", 1)

    unclean, clean = Play().taking(vacated(view)), Play().taking(vacated(view, clean=True))

    assert unclean.only(FenceOld).last == last("n2", 1)
    assert not clean.has(FenceOld)


def test_dead_daemons_are_started_again_here_at_first() -> None:
    play = Play().master()
    play.look(seen_by(play, member("n2")))

    for _ in range(2):
        play.tell(DaemonsFailed(play.epoch, "luxid has ended"), after=1.0)
        assert play.has(StartDaemons)
        play.tell(DaemonsReady(play.epoch))

    assert play.at(State.MASTER)


def test_third_failure_within_a_minute_makes_way_for_another_node() -> None:
    play = Play().master()
    epoch = play.epoch
    play.look(seen_by(play, member("n2")))
    for _ in range(3):
        play.tell(DaemonsFailed(epoch, "luxid has ended"), after=1.0)
    assert (play.state, play.keeper.cause) == (State.LEAVING, EndCause.FAILING)

    play.tell(DaemonsEnded(epoch))
    play.look(vacated(play.view, clean=True))

    # it sits out a lease
    assert play.at(State.BARRED)
    released_at = play.now
    play.wait()
    assert play.now == released_at + 10.0


def test_failures_that_lie_apart_do_not_add_up() -> None:
    play = Play().master()
    play.look(seen_by(play, member("n2")))

    for _ in range(5):
        for _ in range(16):
            play.tell(LeaseRenewed(play.epoch, play.now + 2.0), after=2.0)
        play.tell(DaemonsFailed(play.epoch, "luxid has ended"))
        assert play.has(StartDaemons)

    assert play.at(State.MASTER)


@pytest.mark.parametrize("other", [member("n2", "stale"), member("n2", priority=0)], ids=["barred", "no-failover"])
def test_failing_master_keeps_trying_when_no_other_may(other: MemberRecord) -> None:
    play = Play().master()
    play.look(seen_by(play, other))
    for _ in range(3):
        play.tell(DaemonsFailed(play.epoch, "luxid has ended"), after=0.5)
    assert play.at(State.MASTER)
    assert not play.has(StartDaemons)

    failed_at = play.now
    while not play.has(StartDaemons):
        play.tell(LeaseRenewed(play.epoch, play.now))
        play.wait()

    assert play.now == failed_at + 5.0


def test_master_with_a_full_disk_leaves_only_if_another_may_follow() -> None:
    alone, accompanied = Play().master(), Play().master()
    accompanied.look(seen_by(accompanied, member("n2")))

    alone.tell(FitnessChanged(("the disk is full",)))
    accompanied.tell(FitnessChanged(("the disk is full",)))

    assert (alone.state, accompanied.state) == (State.MASTER, State.LEAVING)


def test_master_with_a_full_disk_leaves_when_another_may_follow_later() -> None:
    play = Play().master()
    play.look(seen_by(play, member("n2", "stale")))
    play.tell(FitnessChanged(("the disk is full",)))
    assert play.at(State.MASTER)

    play.look(seen_by(play, member("n2")))

    assert play.at(State.LEAVING)


def test_all_that_is_due_after_a_long_stop_is_done_at_once() -> None:
    play = Play().master()

    play.tell(Due(), after=8.5)

    kinds = [type(act) for act in play.latest]
    assert kinds.index(StopDaemons) < kinds.index(KillDaemons)
    assert play.at(State.STOPPING)
