"""Rows of the objects of the configuration (luxid.md 7.6)."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from common.errors import PrerequisiteError
from common.objects.codec import decode_object, to_json
from common.objects.config import Config, Network, Node, NodeGroup
from common.objects.index import ConfigIndex, find_named
from common.objects.kinds import DiskUuid, InstanceUuid, NetworkUuid, NodeUuid
from common.query.qlang import Expression
from daemons.luxid.core.query.engine import Things
from daemons.luxid.core.query.instances import INSTANCES, InstanceRow, instance_rows
from daemons.luxid.core.query.nodes import NODES, NodeRow, node_rows
from daemons.luxid.core.query.objects import EXPORTS, GROUPS, NETWORKS, ObjectRow, export_rows, rows_of
from tests.support.configs import UUIDS, disk, instance, small_config


def node_like(config: Config, uuid: str, **changes: Any) -> Node:
    value = {**to_json(config.nodes[UUIDS.node]), "uuid": uuid, "name": f"{uuid}.test", "master_candidate": False}
    return decode_object({**value, **changes}, Node, "node")


def with_nodes(*nodes: Node) -> Config:
    config = small_config()
    return attrs.evolve(config, nodes={**config.nodes, **{NodeUuid(node.uuid): node for node in nodes}})


def with_instances(config: Config, *instances: Any, disks: tuple[Any, ...] = ()) -> Config:
    return attrs.evolve(
        config,
        instances={InstanceUuid(each.uuid): each for each in instances},
        disks={DiskUuid(each.uuid): each for each in disks},
    )


def nodes_of(index: ConfigIndex) -> list[NodeRow]:
    return node_rows(index.nodes, index)


def groups_of(index: ConfigIndex) -> list[ObjectRow[NodeGroup]]:
    return rows_of(index.groups, index)


def networks_of(index: ConfigIndex) -> list[ObjectRow[Network]]:
    return rows_of(index.networks, index)


def instances_of(index: ConfigIndex) -> list[InstanceRow]:
    return instance_rows(index.instances, index)


def cells(things: Things[Any], rows: Any, *names: str, filter: Any = None) -> list[list[Any]]:
    expression = None if filter is None else Expression.from_wire(filter)
    return [
        [cell[1] if cell[0] == 0 else f"status {cell[0]}" for cell in row]
        for row in things.plan(names, expression).rows(rows)
    ]


def test_objects_come_in_the_order_people_expect() -> None:
    config = ConfigIndex(with_nodes(*(node_like(small_config(), f"node{number}") for number in (10, 2, 33))))

    assert cells(NODES, nodes_of(config), "name") == [
        ["node1.test"],
        ["node2.test"],
        ["node10.test"],
        ["node33.test"],
    ]


def test_a_node_has_one_role() -> None:
    base = small_config()
    nodes = (
        node_like(base, "node2", master_candidate=True),
        node_like(base, "node3", drained=True),
        node_like(base, "node4", offline=True),
        node_like(base, "node5"),
    )
    config = ConfigIndex(with_nodes(*nodes))

    assert cells(NODES, nodes_of(config), "role", "master", "mfree") == [
        ["M", True, "status 2"],
        ["C", False, "status 2"],
        ["D", False, "status 2"],
        ["O", False, "status 4"],
        ["R", False, "status 2"],
    ]
    assert [row[1] for row in cells(EXPORTS, export_rows(config.nodes, config), "node", "export")] == [
        "status 2"
    ] * 3 + [
        "status 4",
        "status 2",
    ]


def test_parameters_of_a_node_are_its_own_then_its_groups_then_the_clusters() -> None:
    config = small_config()
    group = config.nodegroups[UUIDS.group]
    group_json = {**to_json(group), "ndparams": {"spindle_count": 5, "ssh_port": 2222}}
    config = attrs.evolve(
        with_nodes(node_like(config, "node2", ndparams={"ssh_port": 22022, "oob_program": "/bin/oob"})),
        nodegroups={UUIDS.group: decode_object(group_json, NodeGroup, "group")},
    )
    index = ConfigIndex(config)
    names = ("ndp/ssh_port", "ndp/spindle_count", "ndp/ovs_name", "powered", "custom_ndparams")

    assert cells(NODES, nodes_of(index), *names) == [
        [2222, 5, "switch1", "status 3", {}],
        [22022, 5, "switch1", True, {"oob_program": "/bin/oob", "ssh_port": 22022}],
    ]
    assert cells(GROUPS, groups_of(index), "ndp/ssh_port", "custom_ndparams") == [
        [2222, {"spindle_count": 5, "ssh_port": 2222}]
    ]


def test_a_mirrored_disk_makes_a_secondary_node() -> None:
    other = node_like(small_config(), "node2", offline=True)
    mirror = disk("d1", dev_type="drbd", logical_id=["uuid-node", "node2", 11000, 0, 0, "secret"], size=1000)
    first = instance("i1", disks=["d1"], primary_node="uuid-node")
    second = instance("i2", primary_node="node2")
    index = ConfigIndex(with_instances(with_nodes(other), first, second, disks=(mirror,)))
    names = ("name", "snodes", "disk_template", "disk_usage", "disk.size/0", "disk.size/1", "sda_size", "oper_ram")

    assert cells(INSTANCES, instances_of(index), *names) == [
        ["i1.test", ["node2.test"], "drbd", 1128, 1000, "status 3", 1000, "status 2"],
        ["i2.test", [], "diskless", 0, "status 3", "status 3", "status 3", "status 4"],
    ]
    assert [list(map(list, row)) for row in cells(NODES, nodes_of(index), "pinst_list", "sinst_list")] == [
        [["i1.test"], []],
        [["i2.test"], ["i1.test"]],
    ]
    assert [list(row[0]) for row in cells(GROUPS, groups_of(index), "pinst_list")] == [["i1.test", "i2.test"]]


def test_parameters_of_an_instance_are_its_own_then_its_systems_then_the_clusters() -> None:
    config = small_config()
    cluster = attrs.evolve(
        config.cluster,
        osparams={"noop": {"a": "1", "b": "1"}, "noop+big": {"b": "2", "c": "2"}},
    )
    config = attrs.evolve(config, cluster=cluster)
    one = instance("i1", os="noop+big", osparams={"c": "3"}, beparams={"maxmem": 512}, osparams_private={"x": "secret"})
    index = ConfigIndex(with_instances(config, one))

    ((osparams, maxmem, minmem, vcpus, custom),) = cells(
        INSTANCES, instances_of(index), "osparams", "be/memory", "be/minmem", "vcpus", "custom_beparams"
    )

    assert osparams == {"a": "1", "b": "2", "c": "3"}
    assert (maxmem, minmem, vcpus) == (512, cluster.beparams["default"].minmem, cluster.beparams["default"].vcpus)
    assert custom == {"maxmem": 512}


def test_interfaces_are_shown_one_by_one_and_together() -> None:
    nics = [
        {"mac": "aa:00:00:00:00:01", "nicparams": {}, "uuid": "n1", "name": "front"},
        {"mac": "aa:00:00:00:00:02", "nicparams": {"mode": "routed", "link": "t1"}, "uuid": "n2", "ip": "192.0.2.5"},
    ]
    index = ConfigIndex(with_instances(small_config(), instance("i1", nics=nics)))
    names = ("nic.count", "nic.bridges", "nic.bridge/1", "nic.mode/1", "nic.ips", "ip", "nic.name/0", "nic.mac/2")

    ((count, bridges, bridge, mode, ips, ip, name, none),) = cells(INSTANCES, instances_of(index), *names)

    link = small_config().cluster.nicparams["default"].link
    assert (count, bridges, bridge, mode) == (2, [link, None], "status 3", "routed")
    assert (ips, ip, name, none) == ([None, "192.0.2.5"], "status 3", "front", "status 3")


def test_a_forthcoming_instance_shows_what_is_known() -> None:
    index = ConfigIndex(
        with_instances(small_config(), instance("i1", forthcoming=True, name=None, primary_node=None, os=None))
    )

    assert cells(INSTANCES, instances_of(index), "name", "forthcoming", "pnode", "pnode.group", "os", "uuid") == [
        ["status 3", True, "status 3", "status 3", "status 3", "i1"]
    ]


def test_a_network_shows_what_is_taken() -> None:
    network: Mapping[str, Any] = {
        "name": "net1",
        "network": "192.0.2.16/29",
        "reservations": "00100000",
        "ext_reservations": "11000001",
        "uuid": "net",
        "serial_no": 1,
    }
    config = small_config()
    group_json = {**to_json(config.nodegroups[UUIDS.group]), "networks": {"net": {"link": "br7"}}}
    group = decode_object(group_json, NodeGroup, "group")
    one = instance("i1", nics=[{"mac": "aa:00:00:00:00:01", "nicparams": {}, "uuid": "n1", "network": "net"}])
    config = attrs.evolve(
        with_instances(config, one),
        nodegroups={UUIDS.group: group},
        networks={NetworkUuid("net"): decode_object(network, Network, "network")},
    )
    index = ConfigIndex(config)
    names = ("map", "free_count", "reserved_count", "external_reservations", "group_list", "inst_cnt", "gateway")

    ((taken, free, reserved, external, groups, instances, gateway),) = cells(NETWORKS, networks_of(index), *names)

    default = config.cluster.nicparams["default"]
    assert (taken, free, reserved) == ("XXX....X", 4, 4)
    assert external == "192.0.2.16, 192.0.2.17, 192.0.2.23"
    assert groups == [[group.name, default.mode.value, "br7", default.vlan]]
    assert (instances, gateway) == (1, "status 3")
    assert cells(INSTANCES, instances_of(index), "nic.network.name/0", "nic_network") == [["net1", "net"]]


def test_unknown_fields_are_cells_of_their_own_status() -> None:
    plan = NODES.plan(("name", "colour"), None)

    assert attrs.asdict(plan.definitions()[1]) == {
        "name": "colour",
        "title": "colour",
        "kind": "unknown",
        "doc": "there is no field 'colour'",
    }
    assert plan.rows(nodes_of(ConfigIndex(small_config()))) == [[(0, "node1.test"), (1, None)]]


def test_host_names_are_equal_to_their_short_forms_in_filters() -> None:
    """luxid.md 7.2."""
    index = ConfigIndex(
        with_nodes(node_like(small_config(), "node11"), node_like(small_config(), "x", name="node1.other.test"))
    )

    for filter, found in (
        (["==", "name", "node1"], [["node1.other.test"], ["node1.test"]]),
        (["!=", "name", "node1"], [["node11.test"]]),
        (["==", "name", "node1.other"], [["node1.other.test"]]),
        (["=~", "name", "^node1$"], []),
        (["|", ["==", "name", "node11"], ["==", "name", "node1.test"]], [["node1.test"], ["node11.test"]]),
    ):
        assert cells(NODES, nodes_of(index), "name", filter=filter) == found


def test_a_look_up_takes_a_short_form_only_if_it_is_unique() -> None:
    index = ConfigIndex(
        with_nodes(node_like(small_config(), "node2"), node_like(small_config(), "x", name="node1.other"))
    )

    def find(*names: str) -> list[str]:
        return [node.name for node in find_named(index.nodes, names, "node", is_host=True)]

    assert find("node2", "node1.test", "node2.test") == ["node2.test", "node1.test"]
    with pytest.raises(
        PrerequisiteError, match=r"node 'node1' may be any of node1.other, node1.test; give the whole name"
    ):
        find("node1")
    with pytest.raises(PrerequisiteError, match="there is no node 'node'"):
        find("node")
    with pytest.raises(PrerequisiteError, match="there is no node group 'def'"):
        find_named(index.groups, ["def"], "node group", is_host=False)


def test_only_what_is_asked_for_is_computed() -> None:
    reads: list[str] = []

    def counting(name: str, field: Any) -> Any:
        def read(row: Any) -> Any:
            reads.append(name)
            return field.read(row)

        return attrs.evolve(field, read=read)

    counted = attrs.evolve(NODES, fields={name: counting(name, field) for name, field in NODES.fields.items()})
    counted.plan(("name",), Expression.from_wire(["==", "pip", "none"])).rows(nodes_of(ConfigIndex(small_config())))

    assert reads == ["pip"]
