"""The opcodes on node groups: their locks, their checks, and what becomes of the configuration (opcodes.md 4, 6.2)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError
from common.objects.config import Config, NodeGroup
from common.objects.kinds import AllocPolicy, DiskTemplate, DiskUuid, GroupUuid, InstanceUuid, NodeUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.groups import (
    GroupAddUnit,
    GroupAssignNodesUnit,
    GroupRemoveUnit,
    GroupRenameUnit,
    GroupSetParamsUnit,
)
from tests.support.configs import UUIDS, disk, instance, node, small_config

BGL = {"cluster/BGL": "shared"}
G2 = GroupUuid("uuid-g2")
N2 = NodeUuid("uuid-n2.test")
SIZES = {
    "memory-size": 128,
    "disk-size": 1024,
    "disk-count": 0,
    "cpu-count": 1,
    "nic-count": 0,
    "spindle-use": 1,
}


def config_with(**changes: Any) -> Config:
    """Group default with node1.test and n2.test, and the empty group g2."""
    config = small_config()
    (default,) = config.nodegroups.values()
    g2 = attrs.evolve(default, name="g2", uuid=G2)
    nodes = {**config.nodes, N2: node("n2.test", primary_ip="192.0.2.2", secondary_ip="192.0.2.2")}
    return attrs.evolve(config, nodes=nodes, nodegroups={**config.nodegroups, G2: g2}, **changes)


def mirrored() -> dict[str, Any]:
    """Instance i1 on both nodes, and i2 on the first alone."""
    drbd = disk("d1", dev_type="drbd", logical_id=[UUIDS.node, N2, 11000, 0, 0, "secret"])
    instances = {InstanceUuid("i1"): instance("i1", disks=["d1"]), InstanceUuid("i2"): instance("i2")}
    return {"disks": {DiskUuid("d1"): drbd}, "instances": instances}


def refusal(trial: UnitTrial, unit: Any, **parameters: object) -> tuple[str, str]:
    with pytest.raises(PrerequisiteError) as raised:
        trial.carry_out(unit, parameters)
    assert trial.config_changes == []
    return raised.value.reason, raised.value.message


def group(trial: UnitTrial, name: str) -> NodeGroup:
    return next(each for each in trial.config.nodegroups.values() if each.name == name)


def test_a_new_group_is_empty_and_takes_a_lock_of_its_own(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    result = trial.carry_out(
        GroupAddUnit, {"group_name": "g3", "alloc_policy": "last_resort", "ndparams": {"exclusive_storage": True}}
    )

    made = group(trial, "g3")
    assert result is None
    assert trial.config_changes == ["changeGroups"]
    assert trial.locks == {**BGL, f"nodegroup/{made.uuid}": "exclusive"}
    assert (made.alloc_policy, made.ndparams.exclusive_storage, made.serial_no) == (AllocPolicy.LAST_RESORT, True, 1)


@pytest.mark.parametrize("name", ["g2", G2])
def test_the_name_of_a_group_is_not_given_again(tmp_path: Path, name: str) -> None:
    for unit, parameters in ((GroupAddUnit, {"group_name": name}), (GroupRenameUnit, {"new_name": name})):
        reason, text = refusal(
            UnitTrial(tmp_path, config=config_with()), unit, **{"group_name": "default", **parameters}
        )

        assert reason == "already_exists"
        assert text == f"there is a node group '{name}' already (uuid {G2})"


@pytest.mark.parametrize("name", [" g", "g\n", "a\tb"])
def test_a_name_that_nobody_could_write_is_refused(tmp_path: Path, name: str) -> None:
    reason, text = refusal(UnitTrial(tmp_path, config=config_with()), GroupAddUnit, group_name=name)

    assert (reason, text.startswith(f"a node group cannot be called {name!r}")) == ("wrong_input", True)


def test_a_dry_run_makes_no_group(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(GroupAddUnit, {"group_name": "g3", "dry_run": True}) is None
    assert trial.config_changes == []


def test_a_renamed_group_is_the_same_group(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(GroupRenameUnit, {"group_name": "g2", "new_name": "north"}) == "north"
    assert trial.locks == {**BGL, f"nodegroup/{G2}": "exclusive"}
    assert group(trial, "north").uuid == G2


def test_an_empty_group_is_removed_also_by_its_uuid(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(GroupRemoveUnit, {"group_name": G2}) is None
    assert trial.locks == {**BGL, f"nodegroup/{G2}": "exclusive"}
    assert set(trial.config.nodegroups) == {UUIDS.group}


def test_groups_with_nodes_and_the_last_one_stay(tmp_path: Path) -> None:
    full = refusal(UnitTrial(tmp_path, config=config_with()), GroupRemoveUnit, group_name="default")
    only = attrs.evolve(small_config(), nodes={})
    last = refusal(UnitTrial(tmp_path, config=only), GroupRemoveUnit, group_name="default")

    assert full == (
        "wrong_state",
        "node group 'default' has nodes: n2.test, node1.test; put them into another group first: "
        "gnt-group assign-nodes GROUP NODE...",
    )
    assert last == ("wrong_state", "node group 'default' is the only one, and cannot be removed")


@pytest.mark.parametrize("unit", [GroupRemoveUnit, GroupRenameUnit, GroupSetParamsUnit, GroupAssignNodesUnit])
def test_an_unknown_group_is_refused_before_any_lock(tmp_path: Path, unit: Any) -> None:
    given: dict[Any, dict[str, object]] = {
        GroupRenameUnit: {"new_name": "x"},
        GroupSetParamsUnit: {"alloc_policy": "preferred"},
        GroupAssignNodesUnit: {"nodes": ["n2"]},
    }
    trial = UnitTrial(tmp_path, config=config_with())

    assert refusal(trial, unit, group_name="g9", **given.get(unit, {})) == (
        "unknown_entity",
        "there is no node group 'g9'",
    )
    assert trial.locks == {}


def test_nodes_are_put_into_a_group_under_the_locks_of_both_groups(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(GroupAssignNodesUnit, {"group_name": "g2", "nodes": ["n2", "n2.test"]}) is None
    assert trial.config_changes == ["changeNodes"]
    assert trial.config.nodes[N2].group == G2
    assert trial.locks == {
        **BGL,
        f"nodegroup/{UUIDS.group}": "exclusive",
        f"nodegroup/{G2}": "exclusive",
        f"node/{N2}": "exclusive",
    }


def test_a_node_that_is_in_the_group_already_is_not_changed(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    assert trial.carry_out(GroupAssignNodesUnit, {"group_name": "default", "nodes": ["n2"]}) is None
    assert trial.config_changes == []


def test_no_nodes_are_not_all_nodes(tmp_path: Path) -> None:
    reason, text = refusal(UnitTrial(tmp_path, config=config_with()), GroupAssignNodesUnit, group_name="g2", nodes=[])

    assert (reason, text) == ("wrong_input", "no nodes are named; name those that the group should have")


def test_instances_are_split_only_by_force(tmp_path: Path) -> None:
    config = config_with(**mirrored())
    trial = UnitTrial(tmp_path, config=config)

    reason, text = refusal(trial, GroupAssignNodesUnit, group_name="g2", nodes=["n2"])
    trial.carry_out(GroupAssignNodesUnit, {"group_name": "g2", "nodes": ["n2"], "force": True})

    assert reason == "wrong_state"
    assert text == (
        "with these nodes in node group 'g2' instances would have nodes in several groups: i1.test; "
        "name all their nodes, or add --force"
    )
    assert trial.feedback == ["warning: instances now have nodes in several groups: i1.test"]
    assert trial.config.nodes[N2].group == G2


def test_all_nodes_of_an_instance_move_together_without_force(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with(**mirrored()))

    trial.carry_out(GroupAssignNodesUnit, {"group_name": "g2", "nodes": ["n2", "node1"]})

    assert {each.group for each in trial.config.nodes.values()} == {G2}
    assert trial.feedback == []


def test_an_instance_that_was_split_before_is_only_told_of(tmp_path: Path) -> None:
    config = config_with(**mirrored())
    third = attrs.evolve(config.nodegroups[G2], name="g3", uuid=GroupUuid("uuid-g3"))
    config = attrs.evolve(
        config,
        nodes={**config.nodes, N2: attrs.evolve(config.nodes[N2], group=G2)},
        nodegroups={**config.nodegroups, GroupUuid("uuid-g3"): third},
    )
    trial = UnitTrial(tmp_path, config=config)

    trial.carry_out(GroupAssignNodesUnit, {"group_name": "g3", "nodes": ["n2"]})

    assert trial.feedback == ["warning: instances still have nodes in several groups: i1.test"]


def test_parameters_change_under_shared_locks_of_the_instances(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with(**mirrored()))

    result = trial.carry_out(
        GroupSetParamsUnit,
        {
            "group_name": "default",
            "alloc_policy": "unallocable",
            "ndparams": {"spindle_count": "3", "ssh_port": 23},
            "diskparams": {"drbd": {"resync-rate": "2048"}},
            "hv_state": {"fake": {"cpu_total": "4"}},
            "disk_state": {"plain": {"vg": {"disk_total": 4}}},
        },
    )

    after = group(trial, "default")
    assert result == [
        ["ndparams", "{'spindle_count': 3, 'ssh_port': 23}"],
        ["diskparams", "{'drbd': {'resync-rate': 2048}}"],
    ]
    assert trial.locks == {
        **BGL,
        "instance/i1.test": "shared",
        "instance/i2.test": "shared",
        f"nodegroup/{UUIDS.group}": "exclusive",
    }
    assert after.alloc_policy is AllocPolicy.UNALLOCABLE
    assert after.diskparams == {DiskTemplate.DRBD: {"resync-rate": 2048}}
    assert after.hv_state_static == {"fake": {"cpu_total": 4}}
    assert after.disk_state_static == {"plain": {"vg": {"disk_total": 4}}}


def test_a_value_of_its_own_ends_with_default(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())
    values = {"ndparams": {"ssh_port": 23, "ovs": True}, "diskparams": {"plain": {"stripes": 2}}}
    trial.carry_out(GroupSetParamsUnit, {"group_name": "g2", **values})

    result = trial.carry_out(
        GroupSetParamsUnit,
        {"group_name": "g2", "ndparams": {"ssh_port": "default"}, "diskparams": {"plain": {"stripes": "default"}}},
    )

    assert result == [["ndparams", "{'ovs': True}"], ["diskparams", "{'plain': {}}"]]


def test_a_policy_of_its_own_is_set_and_ended_part_by_part(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=config_with())
    sizes = [{"min": SIZES, "max": {**SIZES, "cpu-count": 4}}]

    for policy in ({"minmax": sizes, "vcpu-ratio": 3.5, "disk-templates": ["diskless"]}, {"vcpu-ratio": "default"}):
        assert trial.carry_out(GroupSetParamsUnit, {"group_name": "g2", "ipolicy": policy}) == []

    after = group(trial, "g2").ipolicy
    assert after.minmax is not None
    assert (after.minmax[0].max.cpu_count, after.vcpu_ratio) == (4, None)
    assert after.disk_templates == (DiskTemplate.DISKLESS,)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "there is nothing to change; known are alloc_policy, "),
        ({"ndparams": {"shape": 1}}, "there is no node parameter 'shape'; known are oob_program, spindle_count, "),
        ({"ndparams": {"ssh_port": "many"}}, "the node parameter 'ssh_port' cannot be 'many': a whole number is"),
        ({"diskparams": {"drbd": {"shape": 1}}}, "there is no disk parameter of 'drbd' 'shape'; known are resync-"),
        ({"diskparams": {"file": {"shape": 1}}}, "there is no disk parameter of 'file' 'shape'; there are none"),
        ({"diskparams": {"plain": {"stripes": "x"}}}, "the disk parameter of 'plain' 'stripes' cannot be 'x': a whole"),
        ({"diskparams": {"rbd": {"access": "x"}}}, "'access' must be userspace or kernelspace, got 'x'"),
        ({"hv_state": {"bhyve": {}}}, "there is no hypervisor 'bhyve'; known are kvm, xen-pvm, "),
        ({"hv_state": {"kvm": {"shape": 1}}}, "there is no state of a hypervisor 'shape'; known are mem_total, "),
        ({"hv_state": {"kvm": 3}}, "a state is written as an object, not as 3"),
        ({"disk_state": {"lvm": {}}}, "there is no storage type with a state 'lvm'; known are plain"),
        ({"disk_state": {"plain": {"vg": {"x": 1}}}}, "there is no state of 'plain' 'x'; known are disk_total, "),
        ({"ipolicy": {"std": SIZES}}, "the instance policy of a group has no part 'std'; known are minmax, "),
        ({"ipolicy": {"disk-templates": ["round"]}}, "invalid instance policy: "),
        ({"ipolicy": {"disk-templates": []}}, "an instance policy needs a disk template, or 'default'"),
        ({"ipolicy": {"minmax": []}}, "an instance policy needs a range of sizes, or 'default'"),
        ({"ipolicy": {"vcpu-ratio": -1}}, "'vcpu-ratio' must be a number from 0 on, got -1"),
        ({"ipolicy": {"minmax": [{"min": {"cpu-count": 1}, "max": SIZES}]}}, "invalid instance policy: "),
        (
            {"ipolicy": {"minmax": [{"min": {**SIZES, "cpu-count": 9}, "max": SIZES}]}},
            "instances cannot have a 'cpu-count' from 9 to 1",
        ),
    ],
)
def test_a_wrong_value_is_refused_and_named(tmp_path: Path, values: dict[str, object], text: str) -> None:
    trial = UnitTrial(tmp_path, config=config_with())

    reason, told = refusal(trial, GroupSetParamsUnit, group_name="g2", **values)

    assert reason == "wrong_input"
    assert told.startswith(text)
    if values:
        assert refusal(trial, GroupAddUnit, group_name="g3", **values) == (reason, told)


def test_instances_that_no_longer_keep_to_the_policy_are_named(tmp_path: Path) -> None:
    small = instance("i1", beparams={"maxmem": 256, "minmem": 256, "vcpus": 1})
    large = instance("i2", beparams={"maxmem": 4096, "minmem": 128, "vcpus": 1})
    trial = UnitTrial(tmp_path, config=config_with(instances={InstanceUuid("i1"): small, InstanceUuid("i2"): large}))
    sizes = [{"min": SIZES, "max": {**SIZES, "memory-size": 1024}}]

    for _ in range(2):
        trial.carry_out(GroupSetParamsUnit, {"group_name": "default", "ipolicy": {"minmax": sizes}})

    assert trial.feedback == [
        "warning: instances that do not keep to the changed policy: i2.test; they stay as they are"
    ]


def test_a_disk_template_or_a_disk_outside_the_policy_counts(tmp_path: Path) -> None:
    plain = disk("d1", size=2048)
    found = {InstanceUuid("i1"): instance("i1", disks=["d1"]), InstanceUuid("i2"): instance("i2")}
    config = config_with(instances=found, disks={DiskUuid("d1"): plain})
    wide = attrs.evolve(config.cluster.ipolicy, disk_templates=tuple(DiskTemplate))
    config = attrs.evolve(config, cluster=attrs.evolve(config.cluster, ipolicy=wide))
    sizes = [{"min": SIZES, "max": {**SIZES, "memory-size": 9999, "disk-count": 9, "disk-size": 2047}}]

    told = []
    for policy in ({"disk-templates": ["diskless"]}, {"minmax": sizes}):
        trial = UnitTrial(tmp_path, config=config)
        trial.carry_out(GroupSetParamsUnit, {"group_name": "default", "ipolicy": policy})
        told += trial.feedback

    assert told == ["warning: instances that do not keep to the changed policy: i1.test; they stay as they are"] * 2
