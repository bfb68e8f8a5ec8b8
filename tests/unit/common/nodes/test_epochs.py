"""An epoch is a master's own, and no other's (DESIGN 12)."""

from pathlib import Path

import pytest

from common.errors import DamagedFile
from common.nodes.mastership import SeenEpoch, own_epoch, read_seen
from common.replica.replica import NoLongerMaster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "epoch"


def test_a_cluster_whose_master_was_never_moved_needs_none(path: Path) -> None:
    assert own_epoch(path, "node1.test") == 0


def test_the_epoch_that_this_node_has_claimed_is_its_own(path: Path) -> None:
    path.write_text("7 node1.test\n")

    assert own_epoch(path, "node1.test") == 7


@pytest.mark.parametrize(("text", "who"), [("7 node2.test\n", "node2.test"), ("7\n", "another node")])
def test_a_node_that_has_seen_the_epoch_of_another_does_not_use_it(path: Path, text: str, who: str) -> None:
    path.write_text(text)

    with pytest.raises(NoLongerMaster, match=f"{who} has become it since, with epoch 7"):
        own_epoch(path, "node1.test")


@pytest.mark.parametrize("epoch", [SeenEpoch(3, "node1.test"), SeenEpoch(4)])
def test_what_is_written_is_read(path: Path, epoch: SeenEpoch) -> None:
    path.write_text(f"{epoch}\n")

    assert read_seen(path) == epoch


def test_what_is_no_epoch_is_damaged(path: Path) -> None:
    path.write_text("node1.test 7\n")

    with pytest.raises(DamagedFile, match="write the highest epoch that any node has into it"):
        own_epoch(path, "node1.test")
