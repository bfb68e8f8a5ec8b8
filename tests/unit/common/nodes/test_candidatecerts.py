"""Digests of candidates while certificates are renewed (noded.md 3)."""

from common.nodes.candidates import holder_of, with_both, without_old
from common.objects.kinds import NodeUuid

A, B = NodeUuid("a"), NodeUuid("b")
OLD_A = NodeUuid("a-OLDMASTER")


def test_both_digests_stand_there_until_the_old_one_goes() -> None:
    both = with_both({A: "1", B: "7"}, in_use={A: "1"}, new={A: "2"})

    assert both == {A: "2", OLD_A: "1", B: "7"}
    assert without_old(both) == {A: "2", B: "7"}
    assert holder_of(OLD_A) == holder_of(A) == A


def test_the_digest_in_use_stays_when_an_unfinished_renewal_is_repeated() -> None:
    unfinished = with_both({A: "1"}, in_use={A: "1"}, new={A: "2"})

    again = with_both(unfinished, in_use={A: "1"}, new={A: "3"})

    assert set(again.values()) == {"1", "3"}


def test_a_certificate_that_was_installed_before_the_renewal_died_is_the_old_one_of_the_next() -> None:
    unfinished = with_both({A: "1"}, in_use={A: "1"}, new={A: "2"})

    assert with_both(unfinished, in_use={A: "2"}, new={A: "3"}) == {A: "3", OLD_A: "2"}
