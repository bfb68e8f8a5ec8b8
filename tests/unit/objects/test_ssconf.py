"""The values that every node has as files (wconfd.md 7.9)."""

import attrs

from common.objects.codec import decode_config
from common.objects.config import Config, PartialNdParams
from common.objects.kinds import Hypervisor, NodeUuid
from common.objects.ssconf import file_content, ssconf_values
from protocol.noded.files import SsconfValue
from tests.support.configs import RECORDED, recorded_json, small_config


def test_the_recorded_configuration_gives_the_recorded_files() -> None:
    files = {path.name.removeprefix("ssconf_"): path.read_bytes() for path in (RECORDED / "ssconf").iterdir()}

    values = ssconf_values(decode_config(recorded_json()))

    assert len(files) == 34
    assert {key: file_content(lines) for key, lines in values.items()} == files


def with_nodes(count: int) -> Config:
    """Nodes in an order that is neither that of their ids nor of their names."""
    config = small_config()
    (node,) = config.nodes.values()
    nodes = {
        NodeUuid(f"u{9 - number}"): attrs.evolve(
            node, uuid=f"u{9 - number}", name=f"node{number * 5}", master_candidate=number != 1
        )
        for number in range(count)
    }
    return attrs.evolve(config, nodes=nodes, cluster=attrs.evolve(config.cluster, master_node=NodeUuid("u9")))


def test_names_are_sorted_as_people_expect_and_candidates_by_uuid() -> None:
    values = ssconf_values(with_nodes(4))

    assert values["node_list"] == ["node0", "node5", "node10", "node15"]
    assert values["master_candidates"] == ["node15", "node10", "node0"]
    assert values["master_node"] == ["node0"]


def test_the_ssh_port_is_the_nodes_else_the_groups_else_the_clusters() -> None:
    config = with_nodes(2)
    (group,) = config.nodegroups.values()
    first, second = config.nodes.values()
    grouped = attrs.evolve(
        config,
        nodes={NodeUuid("u9"): attrs.evolve(first, ndparams=PartialNdParams(ssh_port=2200)), NodeUuid("u8"): second},
    )

    assert ssconf_values(grouped)["ssh_ports"] == ["node0=2200", "node5=22"]
    grouped = attrs.evolve(
        grouped, nodegroups={first.group: attrs.evolve(group, ndparams=PartialNdParams(ssh_port=2201))}
    )
    assert ssconf_values(grouped)["ssh_ports"] == ["node0=2200", "node5=2201"]


def test_an_unknown_master_is_said_to_be_none() -> None:
    config = small_config()
    gone = attrs.evolve(config, cluster=attrs.evolve(config.cluster, master_node=NodeUuid("")))

    assert ssconf_values(gone)["master_node"] == ["NO MASTER"]


def test_values_of_hypervisors_are_bare_or_json() -> None:
    config = small_config()
    params = {"b": True, "s": "a b", "n": 3, "l": ["é"], "z": None}
    cluster = attrs.evolve(config.cluster, hvparams={Hypervisor.KVM: params}, uid_pool=((5, 5), (7, 9)))

    values = ssconf_values(attrs.evolve(config, cluster=cluster))

    assert values["hvparams_kvm"] == ["b=True", 'l=["\\u00e9"]', "n=3", "s=a b", "z=null"]
    assert values["hvparams_lxc"] == []
    assert values["uid_pool"] == ["5", "7-9"]


def test_an_empty_value_is_an_empty_file() -> None:
    contents = [file_content(lines) for lines in ([], [""], ["a", "b"])]

    assert contents == [b"", b"", b"a\nb\n"]
    # node daemons write the same
    assert contents == [SsconfValue(lines).content for lines in ((), ("",), ("a", "b"))]
