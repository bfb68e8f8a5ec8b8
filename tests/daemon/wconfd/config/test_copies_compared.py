"""Whether all nodes have the configuration of the master (DESIGN section 12)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.wconfd.changes import ChangeJobLimits
from protocol.wconfd.daemon import ConfigVerdict, VerifyConfigCopies
from tests.cli.command import run
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A master and two candidates that have its configuration."""
    with Fleet(tmp_path, 2) as fleet:
        fleet.start()
        fleet.until_same(*fleet.nodes)
        yield fleet


def _ask(fleet: Fleet) -> list[ConfigVerdict]:
    found = fleet.master.wconf(VerifyConfigCopies())
    return list(found)


def _rewrite(path: Path, text: str) -> None:
    # files of ssconf cannot be opened for writing
    path.unlink()
    path.write_text(text)


def test_equal_and_different_configurations_are_told_and_mended(fleet: Fleet) -> None:
    first, second = fleet.nodes
    before = _ask(fleet)
    _rewrite(first.paths.config_data, "{}")
    _rewrite(first.paths.ssconf_file("node_list"), "somebody\n")

    different = _ask(fleet)
    fleet.until_same(first, second)
    after = _ask(fleet)

    assert [(each.node, each.differ, each.failure) for each in before] == [
        (first.name, 0, None),
        (second.name, 0, None),
    ]
    assert [(each.differ, each.files) for each in different] == [(2, ("config.data", "ssconf_node_list")), (0, ())]
    assert [each.differ for each in after] == [0, 0]


def test_a_plain_node_is_compared_without_the_file(fleet: Fleet) -> None:
    second = fleet.nodes[1]
    fleet.change_node(second, master_candidate=False)
    _rewrite(second.paths.config_data, "of an earlier time")

    assert [each.differ for each in _ask(fleet)] == [0, 0]


def test_what_changes_meanwhile_is_no_difference(fleet: Fleet) -> None:
    for number in range(40, 60):
        assert fleet.master.wconf(ChangeJobLimits(number, None))

    assert [(each.differ, each.failure) for each in _ask(fleet)] == [(0, None), (0, None)]


def test_verify_names_nodes_that_are_the_same_and_those_that_cannot_be_asked(fleet: Fleet) -> None:
    first, second = fleet.nodes
    first.kill()

    verified = run("gnt-cluster", "--root", fleet.master.root, "verify")

    assert verified.code == 1
    assert f"configuration copies  same on {second.name}" in verified.out
    assert f"configuration copies  node '{first.name}' could not be compared: node '{first.name}' at" in verified.out


def test_the_first_comparison_is_made_before_anything_is_sent(fleet: Fleet) -> None:
    first, second = fleet.nodes

    def told() -> bool:
        """By a wconfd that is started for it: a node that is slow then gets everything without a comparison."""
        before = len(fleet.master.log("wconfd"))
        fleet.master.kill("wconfd")
        _rewrite(second.paths.config_data, "{}")
        fleet.master.start("wconfd")
        fleet.until_same(first, second)
        log = fleet.master.log("wconfd")[before:]
        differs = f"config.compared node={second.name} differ=1 files=config.data" in log
        return differs and f"config.compared node={first.name} differ=0" in log

    wait_until(told, what="the difference, and that there is no other, are logged")
