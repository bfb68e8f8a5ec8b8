"""A node that becomes the master claims its epoch, which each node grants to one node only (DESIGN 12)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.ids import JobId
from tests.support.machines.nodes import NAME, Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as node:
        node.start()
        yield node


def test_a_claim_is_granted_to_one_node_also_after_a_crash(node: Node) -> None:
    assert node.call("gantry_claim_epoch", [3, "node1.test"]) == [True, None]
    assert node.paths.epoch_file.read_text() == "3 node1.test\n"
    node.kill()
    node.start()

    is_done, text = node.call("gantry_claim_epoch", [3, "node9.test"])
    assert not is_done
    assert "node9.test cannot have epoch 3, this node has seen 3: node1.test has become it since" in text
    assert not node.call("gantry_claim_epoch", [2, "node1.test"])[0]
    assert node.call("gantry_claim_epoch", [3, "node1.test"]) == [True, None]
    assert node.call("gantry_claim_epoch", [4, "node9.test"]) == [True, None]


def test_an_old_master_writes_nothing_after_a_claim(node: Node) -> None:
    node.call("gantry_claim_epoch", [3, "node1.test"])

    assert not node.call("jobqueue_update", [node.job_name(1), [0, "old"]], epoch=2)[0]
    assert not node.paths.job_file(JobId(1)).exists()
    assert node.call("jobqueue_update", [node.job_name(1), [0, "new"]], epoch=3) == [True, None]
    # the calls of its master do not take the claim away
    assert node.paths.epoch_file.read_text() == "3 node1.test\n"


def test_a_number_that_came_with_a_call_is_granted_to_nobody(node: Node) -> None:
    node.call("version", [], epoch=5)

    assert not node.call("gantry_claim_epoch", [5, NAME])[0]


def test_a_node_tells_how_far_its_copies_have_come(node: Node) -> None:
    node.call("gantry_claim_epoch", [3, "node1.test"])
    node.call("jobqueue_update", [node.name(node.paths.serial_file), [0, "17\n"]])
    before = node.call("gantry_standing", [])
    node.paths.config_data.unlink()

    after = node.call("gantry_standing", [])

    assert before == [
        True,
        {"epoch": 3, "epoch_master": "node1.test", "config_serial": 1, "queue_serial": 17},
    ]
    assert after[1]["config_serial"] == 0


def test_a_damaged_copy_is_no_old_one(node: Node) -> None:
    node.paths.config_data.write_text("{")

    is_done, text = node.call("gantry_standing", [])

    assert not is_done
    assert "is not JSON" in text
