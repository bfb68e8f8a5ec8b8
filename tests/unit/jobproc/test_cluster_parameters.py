"""The parameters of the cluster: what is stored, and what is refused (opcodes.md 4 and 6.2, CLUSTER_SET_PARAMS)."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError
from common.objects.codec import to_json
from common.objects.config import Config
from common.objects.kinds import DiskTemplate, DiskUuid, InstanceUuid
from daemons.jobproc.testing import UnitTrial
from daemons.jobproc.units.cluster.params import ClusterSetParamsUnit
from tests.support.configs import disk, instance, small_config


def changed(tmp_path: Path, config: Config | None = None, **parameters: object) -> UnitTrial:
    trial = UnitTrial(tmp_path, config=config or small_config())
    trial.carry_out(ClusterSetParamsUnit, parameters)
    return trial


def cluster_with(**values: Any) -> Config:
    config = small_config()
    return attrs.evolve(config, cluster=attrs.evolve(config.cluster, **values))


def with_instance(**changes: Any) -> Config:
    """An instance with one plain disk."""
    disks = {DiskUuid("d1"): disk("d1")}
    found = instance("i1", disks=["d1"], **changes)
    return attrs.evolve(small_config(), disks=disks, instances={InstanceUuid("i1"): found})


def test_all_locks_of_the_sheet_are_taken_and_only_what_differs_is_sent(tmp_path: Path) -> None:
    trial = changed(tmp_path, max_running_jobs=7, mac_prefix="AA:00:BB")

    assert trial.locks == {
        "cluster/BGL": "shared",
        "instance/[lockset]": "shared",
        "nodegroup/[lockset]": "shared",
        "node/[lockset]": "shared",
    }
    assert trial.wconfd is not None
    (change,) = trial.wconfd.changes
    assert getattr(change, "values", None) == {"max_running_jobs": 7, "mac_prefix": "aa:00:bb"}


# parameters -> values of the cluster after them, as in its file
STORED: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"hv_state": {"kvm": {"mem_total": "9"}}}, {"hv_state_static": {"kvm": {"mem_total": 9}}}),
    ({"disk_state": {"plain": {"vg": {"disk_total": 5}}}}, {"disk_state_static": {"plain": {"vg": {"disk_total": 5}}}}),
    ({"vg_name": "xenvg"}, {"volume_group_name": "xenvg"}),
    ({"osparams": {"deb": {"mirror": "x"}}}, {"osparams": {"deb": {"mirror": "x"}}}),
    ({"osparams_private_cluster": {"deb": {"pw": "x"}}}, {"osparams_private_cluster": {"deb": {"pw": "x"}}}),
    ({"os_hvp": {"deb": {"kvm": {"acpi": "no"}}}}, {"os_hvp": {"deb": {"kvm": {"acpi": False}}}}),
    ({"uid_pool": [[5, 9], [1, 1]]}, {"uid_pool": [(1, 1), (5, 9)]}),
    ({"add_uids": [[5, 9]]}, {"uid_pool": [(5, 9)]}),
    ({"maintain_node_health": True, "prealloc_wipe_disks": True}, {"maintain_node_health": True}),
    ({"drbd_helper": "/bin/true"}, {"drbd_usermode_helper": "/bin/true"}),
    ({"default_iallocator": "hail"}, {"default_iallocator": "hail"}),
    ({"default_iallocator_params": {"a": 1}}, {"default_iallocator_params": {"a": 1}}),
    ({"reserved_lvs": ["xenvg/a.*"]}, {"reserved_lvs": ["xenvg/a.*"]}),
    ({"modify_etc_hosts": True, "enabled_user_shutdown": True}, {"modify_etc_hosts": True}),
    ({"file_storage_dir": "/srv/x"}, {"file_storage_dir": "/srv/x"}),
    ({"install_image": "/srv/x.img", "zeroing_image": "https://a/b"}, {"install_image": "/srv/x.img"}),
    ({"compression_tools": ["gzip", "lzop"]}, {"compression_tools": ["gzip", "lzop"]}),
    ({"max_tracked_jobs": 9}, {"max_tracked_jobs": 9}),
    ({"master_netdev": "lo", "max_tracked_jobs": 9}, {"master_netdev": "lo"}),
]


@pytest.mark.parametrize(("parameters", "values"), STORED, ids=lambda value: "-".join(value))
def test_a_parameter_is_stored(tmp_path: Path, parameters: dict[str, Any], values: dict[str, object]) -> None:
    after = to_json(changed(tmp_path, **parameters).config.cluster)

    assert {name: after[name] for name in values} == values


def test_parameters_that_objects_inherit_are_merged_with_those_there_are(tmp_path: Path) -> None:
    cluster = changed(
        tmp_path,
        beparams={"maxmem": "1g", "vcpus": "2"},
        nicparams={"mode": "openvswitch", "link": "ovs1"},
        ndparams={"ssh_port": "2222", "exclusive_storage": "no"},
        ipolicy={"vcpu-ratio": 8, "std": {"cpu-count": 2}},
        diskparams={"drbd": {"metavg": "xenvg"}},
        enabled_data_collectors={"drbd": False},
        data_collector_interval={"drbd": 9_000_000},
    ).config.cluster

    assert to_json(cluster.beparams["default"]) == {
        **to_json(small_config().cluster.beparams["default"]),
        "maxmem": 1024,
        "vcpus": 2,
    }
    assert to_json(cluster.nicparams["default"]) == {"mode": "openvswitch", "link": "ovs1", "vlan": ""}
    assert (cluster.ndparams.ssh_port, cluster.ndparams.ovs_name) == (2222, "switch1")
    assert (cluster.ipolicy.vcpu_ratio, cluster.ipolicy.spindle_ratio, cluster.ipolicy.std.cpu_count) == (8, 32, 2)
    assert to_json(cluster)["diskparams"]["drbd"] == {"metavg": "xenvg"}  # type: ignore[index]
    collector = cluster.data_collectors["drbd"]
    assert (collector.active, collector.interval) == (False, 9_000_000)


def test_the_old_name_memory_sets_both_bounds(tmp_path: Path) -> None:
    params = changed(tmp_path, beparams={"memory": 512}).config.cluster.beparams["default"]

    assert (params.minmem, params.maxmem) == (512, 512)


def test_a_hypervisor_that_is_enabled_gets_ganetis_parameters(tmp_path: Path) -> None:
    cluster = changed(
        tmp_path, enabled_hypervisors=["kvm", "fake"], hvparams={"kvm": {"vhost_net": "true", "kernel_path": ""}}
    ).config.cluster

    after = to_json(cluster)
    assert after["enabled_hypervisors"] == ["kvm", "fake"]
    params: dict[str, object] = after["hvparams"]["kvm"]  # type: ignore[index]
    assert (params["vhost_net"], params["kernel_path"], params["serial_speed"]) == (True, "", 38400)
    again = changed(tmp_path, attrs.evolve(small_config(), cluster=cluster), hvparams={"kvm": {"vhost_net": "default"}})
    assert to_json(again.config.cluster)["hvparams"]["kvm"]["vhost_net"] is False  # type: ignore[index]


def test_lists_of_systems_take_names_and_give_them_up_and_tell_what_was_so_already(tmp_path: Path) -> None:
    config = cluster_with(hidden_os=("a", "b"))

    trial = changed(tmp_path, config, hidden_os=[["add", "a"], ["add", "c"], ["remove", "b"], ["remove", "x"]])

    assert trial.config.cluster.hidden_os == ("a", "c")
    assert trial.feedback == ["OS a already in hidden OS list, ignoring", "OS x not found in hidden OS list, ignoring"]


def test_what_is_set_without_its_template_and_what_breaks_the_new_policy_is_told(tmp_path: Path) -> None:
    trial = changed(tmp_path, with_instance(), file_storage_dir="/srv/x", ipolicy={"disk-templates": ["diskless"]})

    assert trial.feedback == [
        " - WARNING: 'file_storage_dir' is set, although disk template 'file' is not enabled",
        " - WARNING: After the ipolicy change the following instances violate them: i1.test",
    ]


REFUSED: list[tuple[dict[str, object], str]] = [
    ({}, "there is nothing to change; name at least one parameter"),
    ({"hvparams": {}, "beparams": {}, "nicparams": {}, "ipolicy": {}}, "there is nothing to change; name at least"),
    ({"master_netdev": "eth1"}, "'master_netdev' cannot be changed by a job here: the master's address is up with the"),
    ({"use_external_mip_script": True}, "'use_external_mip_script' cannot be changed by a job here"),
    ({"enabled_hypervisors": []}, "a cluster needs at least one hypervisor"),
    ({"hvparams": {"qemu": {}}}, "there is no hypervisor 'qemu'; known are kvm, xen-pvm, chroot, xen-hvm, lxc, fake"),
    ({"hvparams": {"kvm": {"x": 1}}}, "there is no parameter of hypervisor 'kvm' 'x'; known are acpi, "),
    ({"hvparams": {"kvm": {"acpi": "maybe"}}}, "the parameter of hypervisor 'kvm' 'acpi' cannot be 'maybe': true or"),
    ({"beparams": {"minmem": "4g"}}, "'minmem' (4096) must not exceed 'maxmem' (128)"),
    ({"beparams": {"vcpus": 0}}, "'vcpus' must be at least 1, got 0"),
    ({"beparams": {"vcpus": "default"}}, "'vcpus' in 'beparams' cannot be 'default': the cluster's value is the"),
    ({"beparams": {"maxmem": "much"}}, "the parameter of instances 'maxmem' cannot be 'much': a size in MiB"),
    ({"nicparams": {"mac": "x"}}, "interfaces of the cluster have no parameter 'mac'; known are mode, link, vlan"),
    ({"nicparams": {"mode": "pool"}}, "there is no mode 'pool' of interfaces; known are bridged, routed, openvswitch"),
    ({"nicparams": {"mode": "routed"}}, "interface 0 of instance 'i1.test' has no address, which mode 'routed' needs"),
    ({"ndparams": {"x": 1}}, "there is no node parameter 'x'"),
    ({"ipolicy": {"x": 1}}, "the instance policy has no part 'x'; known are minmax, std,"),
    ({"ipolicy": {"minmax": []}}, "an instance policy needs a range of sizes"),
    ({"ipolicy": {"std": {"cpu-count": 99}}}, "the standard size of the instance policy lies in none of its ranges"),
    ({"ipolicy": {"std": {"cpu": 1}}}, "invalid instance policy: "),
    ({"ipolicy": {"vcpu-ratio": 0}}, "'vcpu-ratio' must be a number above 0, got 0"),
    ({"ipolicy": {"disk-templates": ["rbd"]}}, "the instance policy allows disk template 'rbd', which is not enabled"),
    ({"enabled_disk_templates": []}, "a cluster needs at least one disk template"),
    ({"enabled_disk_templates": ["plain"]}, "disk templates 'plain' and 'drbd' need a volume group; set 'vg_name'"),
    ({"enabled_disk_templates": ["file"]}, "the instance policy allows disk template 'diskless', which is not enabled"),
    ({"vg_name": ""}, "the volume group cannot be unset: instance 'i1.test' has disks in it"),
    ({"file_storage_dir": "srv"}, "'file_storage_dir' must be a whole path such as /srv/files, got 'srv'"),
    ({"reserved_lvs": ["("]}, "the pattern '(' in 'reserved_lvs' cannot be read: "),
    (
        {"diskparams": {"plain": {"stripes": "default"}}},
        "'stripes' in 'diskparams' cannot be 'default': the cluster's ",
    ),
    ({"diskparams": {"plain": {"x": 1}}}, "there is no disk parameter of 'plain' 'x'; known are stripes"),
    ({"mac_prefix": "aa"}, "MAC prefix 'aa' is not three octets"),
    ({"add_uids": [[9, 5]]}, "user ids cannot be from 9 to 5; they lie between 0 and 4294967295"),
    ({"remove_uids": [[5, 5]]}, "user ids 5 are not in the pool; it has none"),
    ({"hidden_os": [["attach", "x"]]}, "the hidden OS list knows 'add' and 'remove', not 'attach'"),
    ({"install_image": "x.img"}, "'install_image' must be a whole path or an address of http, https or ftp"),
    ({"compression_tools": ["lzop"]}, "the compression tool 'gzip' cannot be removed; name it among the others"),
    ({"compression_tools": ["gzip", "a b"]}, "'a b' is not the name of a compression tool"),
    ({"default_iallocator": "/bin/hail"}, "'/bin/hail' is not the name of an allocator; give it without a path"),
    ({"enabled_data_collectors": {"x": True}}, "there is no data collector 'x'; known are cpu-avg-load, diskstats"),
    ({"data_collector_interval": {"drbd": 0}}, "the interval of data collector 'drbd' must be at least 1 µs, got 0"),
    ({"osparams": {"deb": {"a": 1}}}, "'a' in 'osparams' of 'deb' must be text"),
]


@pytest.mark.parametrize(("parameters", "text"), REFUSED, ids=lambda value: "-".join(value)[:60])
def test_a_wrong_parameter_is_refused_and_nothing_is_changed(
    tmp_path: Path, parameters: dict[str, object], text: str
) -> None:
    nic = {"mac": "aa:00:00:00:00:01", "nicparams": {}, "uuid": "nic"}
    trial = UnitTrial(tmp_path, config=with_instance(nics=[nic]))

    with pytest.raises(PrerequisiteError) as raised:
        trial.carry_out(ClusterSetParamsUnit, parameters)

    assert raised.value.message.startswith(text)
    assert trial.config_changes == []


def test_what_instances_use_is_not_disabled(tmp_path: Path) -> None:
    config = with_instance()
    enabled = (DiskTemplate.DISKLESS, DiskTemplate.PLAIN)
    cluster = attrs.evolve(config.cluster, enabled_disk_templates=enabled, volume_group_name="xenvg")
    config = attrs.evolve(config, cluster=cluster)

    for parameters, text in (
        ({"enabled_hypervisors": ["kvm"]}, "hypervisor 'fake' cannot be disabled: instance 'i1.test' uses it"),
        ({"enabled_disk_templates": ["diskless"]}, "disk template 'plain' cannot be disabled: instance 'i1.test' uses"),
    ):
        with pytest.raises(PrerequisiteError) as raised:
            changed(tmp_path, config, **parameters)
        assert raised.value.message.startswith(text)


def test_the_network_of_the_instances_communication_is_made_by_jobs(tmp_path: Path) -> None:
    trial = UnitTrial(tmp_path, config=small_config())

    result = trial.carry_out(ClusterSetParamsUnit, {"instance_communication_network": "talk"})

    assert result == {"jobs": ([True, 2], [True, 3])}
    (addition,), (connection,) = trial.submitted
    assert (addition["OP_ID"], addition["network"]) == ("OP_NETWORK_ADD", "169.254.0.0/16")
    assert (connection["OP_ID"], connection["depends"]) == ("OP_NETWORK_CONNECT", [[-1, ["success"]]])
    assert trial.config.cluster.instance_communication_network == "talk"
