"""The opcodes on nodes, as far as they call no node."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError
from common.objects.config import Config, PartialNdParams
from common.objects.kinds import DiskUuid, InstanceUuid, NodeUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.nodes import NodeAddUnit, NodeRemoveUnit, NodeSetParamsUnit
from tests.support.configs import UUIDS, disk, instance, node, small_config

OTHER = NodeUuid("uuid-n2.test")


def test_one_machine_takes_no_nodes(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(
        PrerequisiteError, match=r"^'replication' in '\[cluster\]' is 'none', so nodes cannot be called"
    ):
        trial.carry_out(NodeAddUnit, {"node_name": "node2.test", "primary_ip": "192.0.2.2"})

    assert trial.locks == {"cluster/BGL": "exclusive"}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"primary_ip": "192.0.2.300"}, "'192.0.2.300' is not an IP address"),
        ({"primary_ip": "192.0.2.1"}, "node 'node1.test' has the address 192.0.2.1 already"),
        (
            {"primary_ip": "192.0.2.2", "secondary_ip": "198.51.100.2"},
            "the nodes of this cluster have one address, so node 'node2.test' must not have a secondary one",
        ),
        ({"primary_ip": "192.0.2.2", "ndparams": {"x": 1}}, "there is no node parameter 'x'; known are oob_program, "),
        (
            {"primary_ip": "192.0.2.2", "ndparams": {"ssh_port": "many"}},
            "the node parameter 'ssh_port' cannot be 'many': a whole number is expected",
        ),
        (
            {"primary_ip": "192.0.2.2", "ndparams": {"exclusive_storage": True}},
            "'exclusive_storage' is for whole groups or the cluster, not for one node",
        ),
        ({"primary_ip": "192.0.2.2", "hv_state": {"x": 1}}, "'hv_state' of a node cannot be set here; leave it out"),
    ],
)
def test_a_node_with_wrong_parameters_is_not_called(tmp_path: Path, parameters: dict[str, object], text: str) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    with pytest.raises(PrerequisiteError) as raised:
        trial.carry_out(NodeAddUnit, {"node_name": "node2.test", **parameters})

    assert raised.value.message.startswith(text)


def two_nodes(**changes: Any) -> Config:
    """The master, and node n2.test, which is a candidate unless the changes say otherwise."""
    config = small_config()
    other = node("n2.test", **{"candidate": True, "primary_ip": "192.0.2.2", "secondary_ip": "192.0.2.2", **changes})
    certificates = {UUIDS.node: "AA", OTHER: "BB"}
    cluster = attrs.evolve(config.cluster, candidate_certs=certificates)
    return attrs.evolve(config, cluster=cluster, nodes={**config.nodes, OTHER: other})


def modified(tmp_path: Path, config: Config, **parameters: object) -> UnitTrial:
    trial = UnitTrial(tmp_path, config=config)
    trial.carry_out(NodeSetParamsUnit, {"node_name": "n2", **parameters})
    return trial


def refusal(tmp_path: Path, config: Config, **parameters: object) -> str:
    with pytest.raises(PrerequisiteError) as raised:
        modified(tmp_path, config, **parameters)
    return raised.value.message


def test_a_change_takes_the_locks_of_the_node_alone(tmp_path: Path) -> None:
    trial = modified(tmp_path, two_nodes(), ndparams={"spindle_count": "2", "ovs": "yes", "cpu_speed": 1.5})

    assert trial.locks == {"cluster/BGL": "shared", f"node/{OTHER}": "exclusive", f"node-res/{OTHER}": "exclusive"}
    assert trial.config_changes == ["changeNodes"]
    assert trial.config.nodes[OTHER].ndparams == PartialNdParams(spindle_count=2, ovs=True, cpu_speed=1.5)


def test_all_nodes_are_locked_where_others_may_be_promoted(tmp_path: Path) -> None:
    trial = modified(tmp_path, two_nodes(), offline=True, auto_promote=True)

    assert trial.locks == {"cluster/BGL": "shared", "node/[lockset]": "exclusive", "node-res/[lockset]": "exclusive"}
    assert trial.config.cluster.candidate_certs == {UUIDS.node: "AA"}


def test_instances_that_mirror_disks_are_locked_while_the_secondary_address_changes(tmp_path: Path) -> None:
    drbd = disk("d1", dev_type="drbd", logical_id=[UUIDS.node, OTHER, 11000, 0, 0, "secret"])
    config = attrs.evolve(
        two_nodes(),
        disks={DiskUuid("d1"): drbd},
        instances={
            InstanceUuid("i1"): instance("i1", disks=["d1"]),
            InstanceUuid("i2"): instance("i2", primary_node=OTHER),
        },
    )
    trial = UnitTrial(tmp_path, config=config)

    with pytest.raises(PrerequisiteError, match="have one address each"):
        trial.carry_out(NodeSetParamsUnit, {"node_name": "n2", "secondary_ip": "198.51.100.2"})

    assert {name: mode for name, mode in trial.locks.items() if name.startswith("instance/")} == {
        "instance/i1.test": "shared"
    }


def test_an_address_that_is_written_otherwise_is_the_same(tmp_path: Path) -> None:
    config = two_nodes(primary_ip="2001:db8::2", secondary_ip="2001:db8::2")
    master = attrs.evolve(config.nodes[UUIDS.node], primary_ip="2001:db8::1", secondary_ip="2001:db8::1")
    config = attrs.evolve(config, nodes={**config.nodes, UUIDS.node: master})

    told = refusal(tmp_path, config, secondary_ip="2001:DB8:0::1")

    assert told == "node 'node1.test' has the address 2001:db8::1 already"


def test_the_power_of_a_node_is_known_only_where_it_can_be_switched(tmp_path: Path) -> None:
    assert refusal(tmp_path, two_nodes(), powered=False).startswith("whether node 'n2.test' is powered cannot be set")
    switched = two_nodes(candidate=False, offline=True, powered=False, ndparams=PartialNdParams(oob_program="/bin/oob"))
    assert refusal(tmp_path, switched, offline=False) == (
        "node 'n2.test' is switched off; set --powered=yes when it is on again"
    )
    assert modified(tmp_path, switched, powered=True).config.nodes[OTHER].powered


def test_a_node_with_instances_stays_able_to_have_them(tmp_path: Path) -> None:
    config = attrs.evolve(two_nodes(), instances={InstanceUuid("i2"): instance("i2", primary_node=OTHER)})

    assert refusal(tmp_path, config, vm_capable=False) == "node 'n2.test' has instances and must stay vm_capable"


def test_a_parameter_of_its_own_ends_by_default(tmp_path: Path) -> None:
    config = two_nodes(ndparams=PartialNdParams(spindle_count=7, ssh_port=2222))

    trial = modified(tmp_path, config, ndparams={"spindle_count": "default"})

    assert trial.config.nodes[OTHER].ndparams == PartialNdParams(ssh_port=2222)


def test_a_node_is_removed_from_one_machine_without_a_call(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=two_nodes())

    trial.carry_out(NodeRemoveUnit, {"node_name": "n2.test"})

    assert trial.locks == {"cluster/BGL": "exclusive"}
    assert OTHER not in trial.config.nodes
    (text,) = trial.feedback
    assert text.startswith("warning: node 'n2.test' has left, but keeps its files of the cluster, keys included: ")
