"""Who campaigns, when, and who may not. Source: lease.md 2, 6 and 7."""

import attrs
import pytest

from common.lease.records import FORMAT, MemberRecord, WantedKind
from daemons.keeperd.core.campaigning import HEAD_START_S, JITTER_S, RANK_S, is_won
from daemons.keeperd.core.events import (
    Campaign,
    CampaignLost,
    DaemonsEnded,
    EtcdSilent,
    FitnessChanged,
    KillDaemons,
    Look,
    MayEnd,
    Release,
    Remember,
    SetDeadline,
    StopAsked,
    StopDaemons,
    Tell,
)
from daemons.keeperd.core.states import NodeMemory, State, View
from tests.unit.keeperd.playing import (
    ME,
    NEW,
    NONCE,
    Play,
    last,
    maintenance,
    mastered,
    member,
    request,
    vacated,
)

# n2 has been the master once, has compared the files of n1, and is gone
GONE = vacated(mastered(NEW, "n2", 4))


def with_others(view: View, *others: MemberRecord) -> View:
    return attrs.evolve(view, others={record.node: record for record in others})


def reasons(play: Play) -> tuple[str, ...]:
    from daemons.keeperd.core.fitness import bars

    return tuple(bar.reason for bar in bars(play.keeper, play.now))


def test_started_keeper_ends_what_an_earlier_one_left_before_it_follows() -> None:
    play = Play()
    assert [type(act) for act in play.acts] == [SetDeadline, StopDaemons, Look]
    play.look(GONE)
    assert play.at(State.STOPPING)
    play.wait()
    assert play.has(KillDaemons)

    play.tell(DaemonsEnded(0))
    play.look(GONE)

    assert play.at(State.CAMPAIGN)


def test_new_cluster_gets_its_first_master() -> None:
    play = Play().campaigning()

    assert play.only(Campaign) == Campaign(above=0, epoch_revision=0)


def test_campaign_names_the_epoch_that_its_decision_saw() -> None:
    play = Play().campaigning(GONE)

    # a mastership since then changes this revision, and may have marked this node stale
    assert play.only(Campaign) == Campaign(above=4, epoch_revision=GONE.epoch_revision)


def test_campaign_is_stored_before_it_is_begun() -> None:
    play = Play().campaigning(GONE)

    kinds = [type(act) for act in play.latest]
    assert kinds.index(Remember) < kinds.index(Campaign)


def test_nobody_campaigns_while_somebody_is_the_master() -> None:
    play = Play().idle(mastered(NEW, "n2", 4))

    assert play.at(State.FOLLOW)
    assert play.keeper.vacant_at is None


@pytest.mark.parametrize(
    ("others", "delay"),
    [
        ((), 0.0),
        ((member("n2", priority=5),), RANK_S),
        ((member("n2", priority=5), member("n3", priority=9)), 2 * RANK_S),
        ((member("n2", priority=5), member("n3", priority=5)), RANK_S),
        ((member("n2", "stale", priority=5),), 0.0),
        ((member("n2", priority=0), member("n3", priority=1)), 0.0),
    ],
    ids=["alone", "one better", "two better", "two equal better", "better is barred", "none better"],
)
def test_better_candidates_go_first(others: tuple[MemberRecord, ...], delay: float) -> None:
    play = Play()
    play.tell(DaemonsEnded(0))
    play.look(with_others(GONE, *others), jitter=0.5)
    vacant_at = play.now

    play.wait()

    assert play.at(State.CAMPAIGN)
    assert play.now == pytest.approx(vacant_at + delay + 0.5 * JITTER_S)


def test_further_looks_do_not_prolong_the_delay() -> None:
    play = Play()
    play.tell(DaemonsEnded(0))
    view = with_others(GONE, member("n2", priority=5))
    play.look(view)
    for _ in range(4):
        play.look(view, after=0.1, jitter=1.0)
    assert play.at(State.FOLLOW)

    play.look(view, after=0.1)

    assert play.at(State.CAMPAIGN)


def test_loser_follows_and_looks_again() -> None:
    play = Play().campaigning(GONE)

    play.tell(CampaignLost())

    assert play.at(State.FOLLOW)
    assert play.has(Look)


def test_refused_campaign_is_tried_again_after_a_pause() -> None:
    play = Play().campaigning(GONE)
    play.tell(CampaignLost("etcd takes no writes"))
    play.look()
    assert (play.state, reasons(play)) == (State.BARRED, ("etcd takes no writes",))

    play.wait()

    assert play.at(State.CAMPAIGN)


def test_silent_etcd_is_waited_for() -> None:
    play = Play().idle(mastered(NEW, "n2", 4))

    play.tell(EtcdSilent())
    assert play.at(State.WAIT)
    play.look()

    assert play.at(State.FOLLOW)


def test_vacancy_is_looked_for_anew_after_silence() -> None:
    play = Play().idle(with_others(GONE, member("n2", priority=5)))
    play.tell(EtcdSilent(), after=0.1)

    play.look(after=3600)

    assert play.at(State.FOLLOW)


REMEMBERED = NodeMemory(cluster_id="c", revision=12, epoch=4)


@pytest.mark.parametrize(
    ("memory", "synced", "may"),
    [
        (REMEMBERED, 0, False),
        (REMEMBERED, 2, True),
        (attrs.evolve(REMEMBERED, own_epoch=4), 0, True),
        (attrs.evolve(REMEMBERED, own_epoch=3), 0, False),
        (attrs.evolve(REMEMBERED, own_epoch=3), 3, False),
        (attrs.evolve(REMEMBERED, own_epoch=3), 4, True),
        (attrs.evolve(REMEMBERED, lacking=4), 4, False),
        (attrs.evolve(REMEMBERED, lacking=3), 4, True),
        (attrs.evolve(REMEMBERED, own_epoch=4, lacking=4), 0, False),
    ],
    ids=[
        "never compared",
        "never the master",
        "the last master",
        "an old master",
        "compared before it was the master",
        "compared since",
        "lacks that epoch",
        "lacked an earlier epoch",
        "its disk was replaced",
    ],
)
def test_old_master_may_only_when_a_later_one_has_compared_its_files(
    memory: NodeMemory, synced: int, may: bool
) -> None:
    play = Play(memory=memory).idle(attrs.evolve(GONE, synced=synced))

    assert play.at(State.CAMPAIGN if may else State.BARRED)


def test_mastership_that_this_disk_does_not_know_bars_it() -> None:
    play = Play().idle(attrs.evolve(GONE, last_master=last("n1", 4)))

    assert play.at(State.BARRED)
    assert play.keeper.memory.lacking == 4


def test_campaign_won_by_a_keeper_that_died_is_known_as_its_own() -> None:
    play = Play(memory=attrs.evolve(REMEMBERED, epoch=3, is_campaigning=True))
    play.idle(attrs.evolve(GONE, last_master=last("n1", 4)))

    assert play.at(State.CAMPAIGN)
    assert play.keeper.memory.own_epoch == 4


def test_every_reason_bars_and_is_told() -> None:
    play = Play(ME, attrs.evolve(REMEMBERED, format=FORMAT + 1))
    play.tell(FitnessChanged(("the disk is full",)))
    play.idle(attrs.evolve(GONE, is_stale=True, has_twin=True, is_full=True))

    assert play.at(State.BARRED)
    text = "; ".join(reasons(play))
    for word in ("disk is full", "same name", "newer release", "etcd is full", "stale"):
        assert word in text


def test_node_without_failover_campaigns_only_when_it_is_named() -> None:
    me = attrs.evolve(ME, priority=0)
    play = Play(me).idle(GONE)
    assert play.at(State.BARRED)

    play.look(attrs.evolve(GONE, wanted=request(WantedKind.SWITCHOVER, "n1")))

    assert play.at(State.CAMPAIGN)


def test_operator_may_overrule_staleness_but_not_a_full_disk() -> None:
    wanted = request(WantedKind.TAKEOVER, "n1")
    stale = attrs.evolve(GONE, is_stale=True, wanted=wanted)
    play, full = Play(), Play()
    full.tell(FitnessChanged(("the disk is full",)))

    assert play.idle(stale).state is State.CAMPAIGN
    assert full.idle(stale).state is State.BARRED


def test_switchover_does_not_overrule_staleness() -> None:
    play = Play().idle(attrs.evolve(GONE, is_stale=True, wanted=request(WantedKind.SWITCHOVER, "n1")))

    assert play.at(State.BARRED)


def test_node_that_its_watchdog_has_reset_waits_its_orphan_time() -> None:
    memory = attrs.evolve(REMEMBERED, own_epoch=4)
    view = attrs.evolve(GONE, last_master=last("n1", 4, watchdog_s=5.0, boot_id="before"))
    play = Play(memory=memory, now=7.0).idle(view)
    assert play.at(State.BARRED)

    play.wait()

    # TTL + 2 x watchdog since the machine was started
    assert play.now == 20.0
    assert play.at(State.CAMPAIGN)


@pytest.mark.parametrize("boot_id", ["boot-1", "before"], ids=["same boot", "no watchdog"])
def test_node_that_was_not_reset_does_not_wait(boot_id: str) -> None:
    memory = attrs.evolve(REMEMBERED, own_epoch=4)
    watchdog_s = 5.0 if boot_id == ME.boot_id else 0.0
    view = attrs.evolve(GONE, last_master=last("n1", 4, watchdog_s=watchdog_s, boot_id=boot_id))

    assert Play(memory=memory, now=7.0).idle(view).state is State.CAMPAIGN


def test_nobody_campaigns_in_maintenance_and_it_is_told_once() -> None:
    view = attrs.evolve(GONE, maintenance=maintenance(3))
    play = Play().idle(view)
    told = [act for act in play.latest if isinstance(act, Tell) and act.is_error]

    play.look(after=3600)

    assert [tell.event for tell in told] == ["keeperd.no_master_in_maintenance"]
    assert not play.latest
    assert play.at(State.FOLLOW)


def test_end_of_maintenance_lets_them_campaign() -> None:
    play = Play().idle(attrs.evolve(GONE, maintenance=maintenance(3)))

    play.look(attrs.evolve(GONE, maintenance=maintenance(4, on=False)))

    assert play.at(State.CAMPAIGN)


def test_maintenance_that_has_gone_from_etcd_is_kept() -> None:
    play = Play(memory=attrs.evolve(REMEMBERED, maintenance=maintenance(3))).idle(GONE)

    assert play.at(State.FOLLOW)
    assert play.keeper.in_maintenance


def test_older_maintenance_does_not_count() -> None:
    play = Play(memory=attrs.evolve(REMEMBERED, maintenance=maintenance(3, on=False)))

    play.idle(attrs.evolve(GONE, maintenance=maintenance(2)))

    assert play.at(State.CAMPAIGN)


def test_takeover_by_hand_works_in_maintenance() -> None:
    wanted = request(WantedKind.TAKEOVER, "n1")
    play = Play().idle(attrs.evolve(GONE, maintenance=maintenance(3), wanted=wanted))

    assert play.at(State.CAMPAIGN)


def test_others_give_the_named_node_a_head_start() -> None:
    play = Play()
    play.tell(DaemonsEnded(0))
    play.look(attrs.evolve(GONE, wanted=request(WantedKind.SWITCHOVER, "n3")))
    vacant_at = play.now

    play.wait()

    assert play.now == vacant_at + HEAD_START_S


def test_fitness_that_changes_during_a_campaign_gives_the_win_back() -> None:
    play = Play().campaigning(GONE)
    play.tell(FitnessChanged(("the watchdog cannot be opened",)))

    play.win()

    assert play.at(State.BARRED)
    assert play.only(Release).clean


def test_campaign_of_unknown_outcome_is_judged_by_the_nonce() -> None:
    ours, other = mastered(GONE, "n1", 5, NONCE), mastered(GONE, "n1", 5, "of a dead process")

    assert is_won(ours.master, NONCE)
    assert not is_won(other.master, NONCE)
    assert not is_won(None, NONCE)


@pytest.mark.parametrize("is_campaigning", [False, True])
def test_keeper_that_holds_nothing_ends_at_once(is_campaigning: bool) -> None:
    play = Play().campaigning(GONE) if is_campaigning else Play().idle(mastered(NEW, "n2", 4))

    play.tell(StopAsked())

    assert play.only(MayEnd)


def test_late_win_of_a_campaign_that_was_lost_for_this_keeper_is_its_own() -> None:
    play = Play(memory=REMEMBERED).campaigning(GONE)
    play.tell(CampaignLost())

    # an earlier keeperd here had sent it
    play.look(attrs.evolve(mastered(GONE, "n1", 5), last_master=last("n1", 5)))
    play.look(vacated(play.view))

    assert play.keeper.memory.own_epoch == 5
    assert play.at(State.CAMPAIGN)
