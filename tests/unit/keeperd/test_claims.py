"""What nodes reply to the claim of an epoch (DESIGN section 12; lease.md 7)."""

import pytest

from daemons.keeperd.core.mastership import Claimed, judge_claims
from protocol.noded.membership import NodeProgress

EPOCH = 42
OWN = "node1.test"


def standing(epoch: int, master: str = "") -> NodeProgress:
    return NodeProgress(epoch=epoch, epoch_master=master, config_serial=0, queue_serial=0)


def judged(**standings: NodeProgress) -> Claimed:
    return judge_claims(["n2", "n3", "n4"], ["n2"], standings, EPOCH, OWN)


def test_nodes_that_did_not_reply_are_asked_again() -> None:
    assert judged() == Claimed(0, ("n3", "n4"))


def test_a_node_that_got_a_call_of_the_new_master_first_knows_its_epoch() -> None:
    """It grants the number to nobody: it would refuse the claim for ever."""
    assert judged(n3=standing(EPOCH)) == Claimed(0, ("n4",))


def test_a_node_that_could_not_write_a_claim_is_asked_again() -> None:
    assert judged(n3=standing(EPOCH - 1, "node9.test")) == Claimed(0, ("n3", "n4"))


@pytest.mark.parametrize(
    ("known", "higher"),
    [(standing(EPOCH + 5, "node9.test"), EPOCH + 5), (standing(EPOCH, "node9.test"), EPOCH + 1)],
    ids=["a higher epoch", "our number, granted to another node"],
)
def test_an_epoch_of_another_node_speaks_against_ours(known: NodeProgress, higher: int) -> None:
    assert judged(n3=known).higher == higher
