"""An etcd that is older than remembered is not believed. Source: lease.md 4."""

import attrs
import pytest

from common.lease.records import AcceptedRestore, Role, WantedKind
from daemons.keeperd.core.events import (
    AcceptRestore,
    DaemonsEnded,
    Due,
    EtcdSilent,
    Look,
    Release,
    Remember,
    RestoreAccepted,
    SetDeadline,
)
from daemons.keeperd.core.keeper import EndCause
from daemons.keeperd.core.states import NodeMemory, State, View
from tests.unit.keeperd.playing import NEW, Play, mastered, member, request, vacated

BEFORE = mastered(NEW, "n2", 4)
MEMORY = NodeMemory(cluster_id="c", revision=BEFORE.revision, epoch=4, accepted=0)
# restored from a snapshot
OLDER = {
    "revision": attrs.evolve(NEW, epoch=4),
    "epoch": attrs.evolve(NEW, revision=50),
    "cluster": attrs.evolve(vacated(BEFORE), cluster_id="d"),
    "epoch key": attrs.evolve(vacated(BEFORE), epoch=0, epoch_revision=0),
}


def accepted(view: View, epoch: int, node: str) -> View:
    return attrs.evolve(
        vacated(attrs.evolve(BEFORE, revision=view.revision)),
        cluster_id=view.cluster_id,
        epoch=epoch,
        accepted=AcceptedRestore(epoch=epoch, node=node),
    )


def in_doubt() -> Play:
    play = Play(memory=MEMORY).idle(BEFORE)
    play.look(OLDER["cluster"])
    play.look(OLDER["cluster"])
    assert play.at(State.DOUBT)
    return play


@pytest.mark.parametrize("what", OLDER)
def test_second_older_read_is_a_doubt(what: str) -> None:
    play = Play(memory=MEMORY).idle(BEFORE)

    play.look(OLDER[what])
    assert play.only(Look).elsewhere
    assert play.at(State.FOLLOW)
    play.look(OLDER[what])

    assert play.at(State.DOUBT)
    assert play.only(Remember).memory.is_doubtful


def test_one_old_read_of_a_paused_member_is_no_doubt_and_no_campaign() -> None:
    play = Play(memory=MEMORY).idle(BEFORE)

    play.look(OLDER["revision"])
    play.look(BEFORE)
    play.look(OLDER["revision"], after=1.0)

    assert play.at(State.FOLLOW)


def test_doubt_does_not_end_because_etcd_has_grown() -> None:
    play = in_doubt()

    play.look(attrs.evolve(vacated(BEFORE), revision=10**6, epoch=99, epoch_revision=99))

    assert play.at(State.DOUBT)


def test_doubt_is_remembered_over_a_restart() -> None:
    memory = in_doubt().keeper.memory

    play = Play(memory=memory).idle(vacated(BEFORE))

    assert play.at(State.DOUBT)


def test_doubt_outlasts_silence() -> None:
    play = in_doubt()

    play.tell(EtcdSilent())

    assert play.at(State.DOUBT)


def test_nobody_takes_over_in_doubt() -> None:
    play = in_doubt()

    play.look(attrs.evolve(vacated(BEFORE), wanted=request(WantedKind.TAKEOVER, "n1")))

    assert play.at(State.DOUBT)


def test_master_in_doubt_stops_all_and_leaves_no_clean_end() -> None:
    play = Play().master()
    epoch = play.epoch
    play.look(attrs.evolve(NEW, cluster_id="d"))
    assert play.at(State.MASTER)

    play.look(attrs.evolve(NEW, cluster_id="d"))
    assert (play.state, play.keeper.cause) == (State.STOPPING, EndCause.DOUBT)
    assert play.only(SetDeadline).until == 0.0
    play.tell(DaemonsEnded(epoch))

    assert not play.only(Release).clean
    assert play.at(State.DOUBT)


def test_campaign_that_is_won_in_doubt_is_given_back() -> None:
    play = Play(memory=MEMORY).campaigning(vacated(BEFORE))
    play.look(OLDER["cluster"])
    play.look(OLDER["cluster"])

    play.view = vacated(BEFORE)
    play.win()

    assert play.at(State.DOUBT)
    assert play.has(Release)


def test_acceptance_is_above_all_that_is_known() -> None:
    play = in_doubt()

    play.tell(RestoreAccepted())

    assert play.only(AcceptRestore).accepted == AcceptedRestore(epoch=5, node="n1")
    assert play.at(State.DOUBT)


def test_acceptance_is_asked_only_in_doubt() -> None:
    play = Play().idle(BEFORE)

    play.tell(RestoreAccepted())

    assert not play.latest


def test_node_that_accepted_may_become_the_master() -> None:
    play = in_doubt()
    view = accepted(OLDER["cluster"], 5, "n1")

    play.look(view)
    play.look(view)

    assert play.at(State.CAMPAIGN)


def test_other_nodes_leave_the_doubt_but_are_compared_first() -> None:
    play = in_doubt()
    view = accepted(OLDER["cluster"], 5, "n2")

    play.look(view)
    assert play.at(State.BARRED)
    play.look(mastered(view, "n2", 6))
    play.look(attrs.evolve(vacated(play.view), synced=6))

    assert play.at(State.CAMPAIGN)


def test_node_that_was_away_hears_of_the_acceptance_later() -> None:
    # it never saw the older etcd; its files may have what the cluster has lost
    play = Play(memory=attrs.evolve(MEMORY, own_epoch=4)).idle(accepted(OLDER["cluster"], 5, "n2"))

    assert play.at(State.BARRED)
    assert play.keeper.memory.lacking == 5


def test_acceptance_of_an_earlier_restore_ends_no_doubt() -> None:
    play = Play(memory=attrs.evolve(MEMORY, epoch=9, accepted=5)).idle(
        attrs.evolve(mastered(BEFORE, "n2", 9), accepted=AcceptedRestore(epoch=5, node="n2"))
    )
    older = attrs.evolve(accepted(BEFORE, 5, "n2"), revision=3)

    play.look(older)
    play.look(older)

    assert play.at(State.DOUBT)


def test_node_that_has_just_joined_knows_no_time_before_an_acceptance() -> None:
    play = Play().idle(accepted(BEFORE, 5, "n2"))

    assert play.at(State.CAMPAIGN)


def test_node_that_was_away_goes_by_the_doubt_of_the_others() -> None:
    # it has seen nothing that the restored etcd lacks
    doubting = attrs.evolve(member("n3"), role=Role.DOUBT)
    play = Play(memory=MEMORY).idle(attrs.evolve(vacated(BEFORE), others={"n3": doubting}))
    assert play.at(State.BARRED)

    play.look(attrs.evolve(play.view, others={"n3": member("n3")}))

    assert play.at(State.CAMPAIGN)


@pytest.mark.parametrize(("founder", "state"), [("n1", State.CAMPAIGN), ("n2", State.BARRED)])
def test_a_cluster_that_was_brought_to_etcd_begins_at_the_node_whose_files_it_has(founder: str, state: State) -> None:
    """Neither of them was ever here before, and the others are compared first."""
    brought = attrs.evolve(NEW, epoch=5, accepted=AcceptedRestore(epoch=5, node=founder))
    play = Play().idle(brought)
    play.look(brought)
    play.tell(Due(), after=60.0)

    assert play.at(state)
