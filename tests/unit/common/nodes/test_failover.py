"""Who may become the master (masterfailover.md 3, parts A and B)."""

import attrs
import pytest

from common.errors import Conflict
from common.nodes.failover import (
    CopiesHeld,
    NodeSays,
    Situation,
    check_copies,
    check_role,
    check_votes,
    newer_copies,
)
from common.nodes.mastership import SeenEpoch

SAME = CopiesHeld(7, 12)
THREE = Situation("n2", "n1", ["n1", "n2", "n3"], [NodeSays(f"n{number}", "n1", copies=SAME) for number in (1, 2, 3)])


def saying(*masters: str | None, own_knows: str = "n1") -> Situation:
    says = [
        attrs.evolve(one, master=master, copies=one.copies if master is not None else None)
        for one, master in zip(THREE.says, masters, strict=True)
    ]
    return attrs.evolve(THREE, says=says, old_master=own_knows)


def with_epochs(situation: Situation, *epochs: SeenEpoch) -> Situation:
    says = [attrs.evolve(one, epoch=epoch) for one, epoch in zip(situation.says, epochs, strict=True)]
    return attrs.evolve(situation, says=says)


def test_a_candidate_that_lacks_nothing_may_be_the_master_when_the_old_one_is_dead() -> None:
    situation = saying(None, "n1", "n1")

    check_role(situation)
    check_votes(situation)
    check_copies(situation)


def test_a_node_that_is_no_candidate_is_refused_with_those_that_are() -> None:
    with pytest.raises(Conflict, match="'n2' is not a master candidate, those are n1, n3"):
        check_role(attrs.evolve(THREE, candidates=["n3", "n1"]))


def test_a_node_whose_own_daemon_is_down_or_that_has_no_configuration_is_refused() -> None:
    with pytest.raises(Conflict, match="the node daemon of 'n2' does not reply"):
        check_role(saying("n1", None, "n1"))
    bare = [attrs.evolve(one, copies=CopiesHeld(0, 0)) for one in THREE.says]
    with pytest.raises(Conflict, match="no copy of the configuration"):
        check_role(attrs.evolve(THREE, says=bare))


@pytest.mark.parametrize("masters", [(None, "n1", None), ("", "n1", ""), ("n3", "n1", "n2")])
def test_more_than_half_must_agree(masters: tuple[str | None, ...]) -> None:
    with pytest.raises(Conflict, match="only 1 of 3 nodes agree"):
        check_votes(saying(*masters))


def test_a_node_that_has_missed_a_move_is_refused_with_the_new_master() -> None:
    with pytest.raises(Conflict, match="by them 'n1' is the master, and 2 of 3 nodes say that 'n3' is"):
        check_votes(saying("n3", "n1", "n3"))


def test_a_move_that_was_interrupted_after_the_others_had_its_result_or_before_goes_on() -> None:
    mine = SeenEpoch(4, "n2")

    for masters in (("n2", "n2", "n2"), ("n1", "n2", "n1")):
        check_votes(with_epochs(saying(*masters, own_knows="n2"), mine, mine, mine))


def test_a_former_master_that_was_away_during_a_move_may_not_take_it_back() -> None:
    away = with_epochs(saying("n3", "n2", "n3", own_knows="n2"), SeenEpoch(5, "n3"), SeenEpoch(4, "n2"), SeenEpoch(5))

    assert not away.was_interrupted
    with pytest.raises(Conflict, match="say that 'n3' is"):
        check_votes(away)


def test_the_next_epoch_is_higher_than_all_that_were_seen() -> None:
    assert THREE.next_epoch == 1
    assert with_epochs(THREE, SeenEpoch(9, "n1"), SeenEpoch(2), SeenEpoch()).next_epoch == 10


@pytest.mark.parametrize("better", [CopiesHeld(8, 12), CopiesHeld(7, 13), CopiesHeld(8, 2)])
def test_newer_copies_elsewhere_are_named(better: CopiesHeld) -> None:
    says = [*THREE.says[:2], attrs.evolve(THREE.says[2], copies=better)]
    situation = attrs.evolve(THREE, says=says)

    assert [one.name for one in newer_copies(situation)] == ["n3"]
    with pytest.raises(Conflict, match=f"'n3' has newer copies than this node: it has {better}, this one {SAME}"):
        check_copies(situation)


def test_what_a_node_has_more_since_it_heard_of_an_interrupted_move_is_not_missed() -> None:
    mine, more = SeenEpoch(4, "n2"), CopiesHeld(7, 13)
    ahead = attrs.evolve(
        THREE, says=[attrs.evolve(one, copies=more) if one.name == "n1" else one for one in THREE.says]
    )

    assert not newer_copies(with_epochs(ahead, mine, mine, SeenEpoch()))
    # it has not heard of it, so that its jobs may be acknowledged
    assert newer_copies(with_epochs(ahead, SeenEpoch(3, "n1"), mine, mine))
