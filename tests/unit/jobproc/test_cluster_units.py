"""Renaming and verifying the cluster (opcodes.md 4 and 6.2; recorded jobs)."""

from pathlib import Path
from typing import Any

import attrs
import orjson
import pytest

from common.errors import PrerequisiteError
from common.objects.codec import decode_config
from common.objects.config import Config, PartialNicParams
from common.objects.kinds import GroupUuid, InstanceUuid, NetworkUuid, NodeUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.cluster.verify import ClusterVerifyConfigUnit, ClusterVerifyUnit
from daemons.jobproc.units.cluster.whole import ClusterPostInitUnit, ClusterRenameUnit
from tests.support.configs import RECORDED, UUIDS, instance, node, small_config

# recorded: lines of a job of Ganeti's
STEPS = [
    "* Verifying cluster config",
    "* Verifying cluster certificate files",
    "* Verifying hypervisor parameters",
    "* Verifying all nodes belong to an existing group",
]


def with_address(address: str, name: str = "old.test") -> Config:
    config = small_config()
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, master_ip=address, cluster_name=name))


def refusal(tmp_path: Path, config: Config, name: str) -> str:
    with pytest.raises(PrerequisiteError) as raised:
        UnitTrial(tmp_path, config=config).carry_out(ClusterRenameUnit, {"name": name})
    return raised.value.message


def test_a_cluster_of_one_machine_is_renamed_to_a_name_without_an_address(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    assert trial.carry_out(ClusterRenameUnit, {"name": "new.invalid"}) == "new.invalid"
    assert trial.config.cluster.cluster_name == "new.invalid"
    assert trial.locks == {"cluster/BGL": "exclusive"}


def test_the_address_of_a_cluster_does_not_move_with_its_name(tmp_path: Path) -> None:
    assert refusal(tmp_path, with_address("192.0.2.9"), "127.0.0.9").startswith(
        "'127.0.0.9' has the address 127.0.0.9, the cluster 192.0.2.9; a job here cannot move the cluster"
    )
    assert refusal(tmp_path, with_address("192.0.2.9"), "x.invalid").startswith(
        "the address of 'x.invalid' is not known: "
    )
    trial = UnitTrial(tmp_path, config=with_address("192.0.2.9"))
    assert trial.carry_out(ClusterRenameUnit, {"name": "192.0.2.9"}) == "192.0.2.9"


def test_a_name_that_is_none_or_the_old_one_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, small_config(), "a b") == "'a b' is not a name for a cluster: write it as a host's"
    assert refusal(tmp_path, small_config(), "cluster.test") == (
        "neither the name nor the address of the cluster would change"
    )


def verified(tmp_path: Path, config: Config, **parameters: object) -> tuple[bool, list[str]]:
    """The result, and the lines beside the steps."""
    trial = UnitTrial(tmp_path, config=config)
    result: bool = trial.carry_out(ClusterVerifyConfigUnit, parameters)
    assert [line for line in trial.feedback if line in STEPS] == STEPS
    return result, [line for line in trial.feedback if line not in STEPS]


def test_the_recorded_configuration_is_good_as_it_was_to_ganeti(tmp_path: Path) -> None:
    recorded = decode_config(orjson.loads((RECORDED / "config.data").read_bytes()))

    assert verified(tmp_path, recorded) == (True, [])
    assert verified(tmp_path, small_config()) == (True, [])


def test_all_locks_of_the_sheet_are_taken(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())
    trial.carry_out(ClusterVerifyConfigUnit, {})

    groups = ("instance", "nodegroup", "node", "node-res", "network")
    assert trial.locks == {"cluster/BGL": "shared", **{f"{name}/[lockset]": "shared" for name in groups}}


def broken(**tables: Any) -> Config:
    return attrs.evolve(small_config(), **tables)


NIC = {"mac": "aa:00:00:00:00:01", "nicparams": {}, "uuid": "nic", "ip": "192.0.2.9"}
MASTER = small_config().nodes[UUIDS.node]
GROUP = small_config().nodegroups[UUIDS.group]
FAULTS: list[tuple[Config, str]] = [
    (
        broken(nodes={UUIDS.node: attrs.evolve(MASTER, master_candidate=False)}),
        "ERROR: cluster: Master node is not a master candidate",
    ),
    (
        broken(nodes={UUIDS.node: attrs.evolve(MASTER, drained=True)}),
        "ERROR: cluster: node 'node1.test' has more than one of its exclusive roles: master_candidate=True, ",
    ),
    (
        broken(nodes={UUIDS.node: MASTER, NodeUuid("uuid-n2"): node("n2", candidate=True)}),
        "ERROR: cluster: the address 192.0.2.1 is used more than once: by nodes, or by the cluster and a node",
    ),
    (
        broken(nodes={UUIDS.node: attrs.evolve(MASTER, group=GroupUuid("x"))}),
        "ERROR: node: the following nodes (and their instances) belong to a non existing group: node1.test ()",
    ),
    (
        broken(instances={InstanceUuid("i1"): instance("i1", primary_node="x")}),
        "ERROR: instance: the following instances have a non-existing primary-node: i1.test",
    ),
    (
        broken(instances={InstanceUuid(name): instance(name, nics=[NIC]) for name in ("i1", "i2")}),
        "ERROR: cluster: the MAC address aa:00:00:00:00:01 is used by several interfaces",
    ),
    (
        broken(instances={InstanceUuid("i1"): instance("i1", hvparams={"x": 1})}),
        "ERROR: cluster: hypervisor fake parameters (source instance i1.test): there is no parameter of hypervisor",
    ),
    (
        broken(nodegroups={UUIDS.group: attrs.evolve(GROUP, networks={NetworkUuid("net"): PartialNicParams()})}),
        "ERROR: cluster: node group 'default' is connected to network 'net', which does not exist",
    ),
]


@pytest.mark.parametrize(("config", "text"), FAULTS)
def test_a_fault_is_told_in_ganetis_form(tmp_path: Path, config: Config, text: str) -> None:
    is_good, lines = verified(tmp_path, config)

    assert not is_good
    assert [line for line in lines if line.startswith(f"  - {text}")] != []


def test_codes_are_told_if_wanted_and_ignored_faults_are_warnings(tmp_path: Path) -> None:
    config = FAULTS[-1][0]
    text = "node group 'default' is connected to network 'net', which does not exist"

    assert verified(tmp_path, config, error_codes=True) == (
        False,
        [f"  - ERROR:ECLUSTERCFG:cluster::{text}"],
    )
    assert verified(tmp_path, config, ignore_errors=["ECLUSTERCFG"]) == (
        True,
        [f"  - WARNING: cluster: {text}"],
    )


def test_faults_are_simulated_for_who_tests_the_display(tmp_path: Path) -> None:
    is_good, lines = verified(tmp_path, small_config(), debug_simulate_errors=True, error_codes=True)

    assert not is_good
    assert [line.split(":")[1] for line in lines] == [
        *("ECLUSTERCFG", "ECLUSTERCERT", "ECLUSTERCFG", "ECLUSTERDANGLINGNODES", "ECLUSTERDANGLINGINST")
    ]


def test_the_cluster_is_verified_by_a_job_for_the_configuration_and_one_for_each_group(tmp_path: Path) -> None:
    two = attrs.evolve(GROUP, name="two", uuid="uuid-two")
    trial = UnitTrial(tmp_path, config=broken(nodegroups={UUIDS.group: GROUP, GroupUuid("uuid-two"): two}))

    result = trial.carry_out(ClusterVerifyUnit, {"error_codes": True, "skip_checks": ["nplusone_mem"]})

    assert result == {"jobs": ([True, 2], [True, 3], [True, 4])}
    (config,), (first,), (second,) = trial.submitted
    assert (config["OP_ID"], config["error_codes"]) == ("OP_CLUSTER_VERIFY_CONFIG", True)
    assert (first["group_name"], first["depends"], first["skip_checks"]) == ("default", [[-1, []]], ["nplusone_mem"])
    assert (second["group_name"], second["depends"]) == ("two", [[-2, []]])
    assert trial.locks == {"cluster/BGL": "shared"}
    only = UnitTrial(tmp_path, config=small_config())
    assert only.carry_out(ClusterVerifyUnit, {"group_name": "default"}) == {"jobs": ([True, 2],)}
    assert "depends" not in only.submitted[0][0]


def test_after_the_making_of_a_cluster_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert UnitTrial(tmp_path).carry_out(ClusterPostInitUnit, {}) is True
