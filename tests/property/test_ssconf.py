"""For any configuration all keys of ssconf are there, and well formed (wconfd.md 7.9, and 9, property 39)."""

import re

import attrs
from hypothesis import given
from hypothesis import strategies as st

from common.objects.config import Config, Network, Node, PartialNdParams
from common.objects.kinds import GroupUuid, Hypervisor, InstanceUuid, NetworkUuid, NodeUuid
from common.objects.ssconf import SsconfValues, file_content, ssconf_values
from tests.property.test_config_round_trip import configs
from tests.support.configs import RECORDED, instance, small_config

KEYS = frozenset(path.name.removeprefix("ssconf_") for path in (RECORDED / "ssconf").iterdir())
# what a line of each key is, where the value of an object is not simply given
_IP, _BOOL = r"[\d.]+", "(True|False)"
PATTERNS = {
    "enabled_user_shutdown": _BOOL,
    "hypervisor_list": "[a-z-]+",
    "maintain_node_health": _BOOL,
    "master_candidates_certs": r"[\w-]+=[0-9a-f]*",
    "master_candidates_ips": _IP,
    "master_netmask": r"\d+",
    "networks": r"[\w-]+ \w+",
    "node_primary_ips": rf"\w+ {_IP}",
    "node_secondary_ips": rf"\w+ {_IP}",
    "node_vm_capable": rf"\w+={_BOOL}",
    "nodegroups": r"[\w-]+ \w+",
    "primary_ip_family": "(2|10)",
    "ssh_ports": r"\w+=\d+",
    # of a range of one the number alone
    "uid_pool": r"(\d+)(-(?!\1\Z)\d+)?",
    **{f"hvparams_{one.value}": r"\w+=.*" for one in Hypervisor},
}
ONE_LINERS = [
    *("cluster_name", "file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir", "master_ip"),
    *("master_netdev", "master_netmask", "master_node", "primary_ip_family", "release_version"),
    *("maintain_node_health", "enabled_user_shutdown"),
]
# several nodes may have one address, and the ranges are as they were given
MAY_REPEAT = ("master_candidates_ips", "uid_pool")

NUMBERS = st.sets(st.integers(0, 2000), max_size=5)
WORDS = st.from_regex(r"\A[a-z]{1,4}\Z")
LINES = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=6)
PORTS = st.none() | st.integers(1, 65535)
PARAMS = st.dictionaries(WORDS, LINES | st.booleans() | st.none() | st.integers() | st.lists(LINES, max_size=2))
RANGES = st.lists(st.tuples(st.integers(0, 10), st.integers(11, 20)) | st.integers(0, 9).map(lambda one: (one, one)))


@st.composite
def nodes(draw: st.DrawFn) -> dict[NodeUuid, Node]:
    (pattern,) = small_config().nodes.values()
    numbers = draw(st.permutations(sorted(draw(NUMBERS))))
    return {
        NodeUuid(f"u{place}"): attrs.evolve(
            pattern,
            uuid=f"u{place}",
            name=f"n{number}",
            offline=draw(st.booleans()),
            master_candidate=draw(st.booleans()),
            vm_capable=draw(st.booleans()),
            group=draw(st.sampled_from([GroupUuid("g0"), pattern.group])),
            ndparams=PartialNdParams(ssh_port=draw(PORTS)),
        )
        for place, number in enumerate(numbers)
    }


@st.composite
def fleets(draw: st.DrawFn) -> Config:
    """Configurations with several objects of each kind; every text is one line."""
    config = small_config()
    (group,) = config.nodegroups.values()
    network = Network(name="x", network="192.0.2.0/24", uuid="x", serial_no=1)
    cluster = attrs.evolve(
        config.cluster,
        master_node=NodeUuid(draw(st.sampled_from(["u0", "u1", ""]))),
        tags=frozenset(draw(st.sets(WORDS))),
        enabled_hypervisors=tuple(draw(st.lists(st.sampled_from(Hypervisor), unique=True))),
        hvparams=draw(st.dictionaries(st.sampled_from(Hypervisor), PARAMS)),
        uid_pool=tuple(draw(RANGES)),
        candidate_certs={NodeUuid(f"u{one}"): f"{one:x}" for one in draw(NUMBERS)},
        maintain_node_health=draw(st.booleans()),
    )
    return attrs.evolve(
        config,
        cluster=cluster,
        nodes=draw(nodes()),
        nodegroups={GroupUuid(group.uuid): attrs.evolve(group, ndparams=PartialNdParams(ssh_port=draw(PORTS)))},
        networks={
            NetworkUuid(f"w{one}"): attrs.evolve(network, uuid=f"w{one}", name=f"net{one}") for one in draw(NUMBERS)
        },
        # only one that is still to come may have no name
        instances={
            InstanceUuid(f"i{one}"): instance(
                f"i{one}", name=draw(st.sampled_from([f"web{one}", None])), forthcoming=True
            )
            for one in draw(NUMBERS)
        },
    )


@given(configs() | fleets())
def test_all_keys_are_there_and_each_is_a_text_of_lines(config: Config) -> None:
    values = ssconf_values(config)

    assert len(KEYS) == 34
    assert values.keys() == KEYS
    for lines in values.values():
        text = b"\n".join(line.encode() for line in lines)
        # a value may end in a newline itself: no second one is added
        is_ended = not text or text.endswith(b"\n")
        assert file_content(lines) == (text if is_ended else text + b"\n")


@given(fleets())
def test_every_line_is_as_its_key_says(config: Config) -> None:
    values = ssconf_values(config)

    assert {key: len(values[key]) for key in ONE_LINERS} == dict.fromkeys(ONE_LINERS, 1)
    for key, lines in values.items():
        assert file_content(lines).decode().splitlines() == [line for line in lines if lines != [""]]
        assert [line for line in lines if not re.fullmatch(PATTERNS.get(key, r"\S.*"), line)] == []
        assert len(set(lines)) == len(lines) or key in MAY_REPEAT


@given(fleets())
def test_the_lines_of_nodes_say_what_the_nodes_are(config: Config) -> None:
    values = ssconf_values(config)
    # by their numbers, as all begin alike
    found = sorted(config.nodes.values(), key=lambda node: int(node.name[1:]))
    names = [node.name for node in found]
    master = config.cluster.master_node

    assert values["node_list"] == names
    assert sorted([*values["online_nodes"], *values["offline_nodes"]]) == sorted(names)
    assert read_pairs(values, "node_primary_ips", " ") == {node.name: node.primary_ip for node in found}
    assert read_pairs(values, "node_secondary_ips", " ") == {node.name: node.secondary_ip for node in found}
    assert read_pairs(values, "node_vm_capable", "=") == {node.name: str(node.vm_capable) for node in found}
    assert [line.partition("=")[0] for line in values["ssh_ports"]] == names
    assert set(values["offline_nodes"]) == {node.name for node in found if node.offline}
    assert set(values["master_candidates"]) == {
        node.name for uuid, node in config.nodes.items() if node.master_candidate or uuid == master
    }
    assert len(values["master_candidates_ips"]) == len(values["master_candidates"])
    assert values["master_node"] == [config.nodes[master].name if master in config.nodes else "NO MASTER"]


@given(fleets())
def test_named_objects_are_there_in_natural_order(config: Config) -> None:
    values = ssconf_values(config)

    networks, instances = config.networks.values(), config.instances.values()
    assert values["instance_list"] == by_number([one.name for one in instances if one.name is not None])
    assert [line.partition(" ")[2] for line in values["networks"]] == by_number([one.name for one in networks])
    assert read_pairs(values, "networks", " ") == {one.uuid: one.name for one in networks}


def read_pairs(values: SsconfValues, key: str, separator: str) -> dict[str, str]:
    found = (line.partition(separator) for line in values[key])
    return {left: right for left, _, right in found}


def by_number(names: list[str]) -> list[str]:
    return sorted(names, key=lambda name: int(name.lstrip("abcdefghijklmnopqrstuvwxyz")))
