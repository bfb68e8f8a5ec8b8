"""OP_CLUSTER_SET_PARAMS: the size of the candidate pool, with real node daemons (opcodes.md 4)."""

from collections.abc import Iterator
from typing import Any

import pytest

from protocol.wconfd.config import ReadConfig
from tests.cli.command import run
from tests.support.machines.fleet import Ended, Fleet

OP = "OP_CLUSTER_SET_PARAMS"


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    # paths of sockets are short, and the test's name is not
    with Fleet(tmp_path_factory.mktemp("fleet"), 0) as fleet:
        fleet.master.start()
        yield fleet


def cluster_of(fleet: Fleet) -> dict[str, Any]:
    config: Any = fleet.master.wconf(ReadConfig())
    cluster: dict[str, Any] = config["cluster"]
    return cluster


def test_a_larger_pool_is_filled_and_a_smaller_one_keeps_its_candidates(fleet: Fleet) -> None:
    fleet.set_pool_size(1)
    first, second = fleet.start_node(), fleet.start_node()
    for node in (first, second):
        assert fleet.carry_out("OP_NODE_ADD", node_name=node.name, primary_ip=node.ip).log == ()
    serial = cluster_of(fleet)["serial_no"]

    # empty objects as Ganeti's client sends them
    larger = fleet.carry_out(OP, candidate_pool_size=2, hvparams={}, nicparams={}, enabled_data_collectors={})

    assert larger == Ended("success", None, (f"node '{first.name}' becomes a master candidate",))
    assert set(fleet.certificates()) == {"node1.test", first.name}
    assert (cluster_of(fleet)["candidate_pool_size"], cluster_of(fleet)["serial_no"]) == (2, serial + 1)
    fleet.until_same(first)
    ended = run("gnt-cluster", "--root", fleet.master.root, "modify", "--candidate-pool-size", 1)
    assert (ended.code, ended.out) == (0, "")
    assert "warning: there are 2 master candidates; end some with: gnt-node modify -C no NODE" in ended.err
    assert set(fleet.certificates()) == {"node1.test", first.name}
    limits = fleet.carry_out(OP, max_running_jobs=7, max_tracked_jobs=9)
    assert limits.status == "success"
    assert (cluster_of(fleet)["max_running_jobs"], cluster_of(fleet)["max_tracked_jobs"]) == (7, 9)
    assert fleet.carry_out(OP, master_netdev="eth9").refusal.startswith("'master_netdev' cannot be changed by a job")
    assert fleet.carry_out(OP).refusal.startswith("there is nothing to change")
    # the nodes were added just now, and have everything
    verified = fleet.carry_out("OP_CLUSTER_VERIFY_GROUP", group_name="default")
    assert [line for line in verified.log if "ERROR" in line] == []
    assert (verified.status, verified.result) == ("success", True)
    second.paths.hmac_key.write_text("another\n")
    spoilt = fleet.carry_out("OP_CLUSTER_VERIFY_GROUP", group_name="default")
    assert (spoilt.status, spoilt.result) == ("success", False)
    (fault,) = [line for line in spoilt.log if "ERROR" in line]
    assert fault.startswith(f"  - ERROR: node {second.name}: File ")
    assert fault.endswith("/hmac.key differs from the master's; send it with: gnt-cluster redist-conf")
