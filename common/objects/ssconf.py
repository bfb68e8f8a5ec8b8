"""ssconf: values of the configuration that every node has as small files, one file for each key.

Programs on a node read these files without asking a daemon. All keys are always present.

Source: wconfd.md 7.9.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from common.jsontext import ascii_json
from common.objects.config import Config, Network, Node, NodeGroup, Params
from common.objects.kinds import Hypervisor, NodeUuid, natural_key

# limit of a value; longer files are not read
MAX_BYTES: Final = 128 * 1024
# Ganeti release whose file and message formats we use
RELEASE_VERSION: Final = "3.0.2"

_Named = TypeVar("_Named", Node, NodeGroup, Network)

SsconfValues = Mapping[str, Sequence[str]]


def ssconf_values(config: Config, *, release: str = RELEASE_VERSION) -> SsconfValues:
    """The lines of every key."""
    return {
        **_cluster_values(config),
        **_node_values(config),
        **_master_values(config),
        "instance_list": _naturally(one.name for one in config.instances.values() if one.name is not None),
        "nodegroups": [f"{one.uuid} {one.name}" for one in _by_name(config.nodegroups.values())],
        "networks": [f"{one.uuid} {one.name}" for one in _by_name(config.networks.values())],
        "release_version": [release],
        **{f"hvparams_{one.value}": _hvparams(config.cluster.hvparams.get(one, {})) for one in Hypervisor},
    }


def file_content(lines: Sequence[str]) -> bytes:
    """The content of a file with these lines: the last one ends in a newline too, no or empty lines make an empty file.

    All programs that write such files agree on it, so that they are the same on all nodes.
    """
    text = "\n".join(lines)
    return (text if not text or text.endswith("\n") else f"{text}\n").encode()


def _cluster_values(config: Config) -> SsconfValues:
    cluster = config.cluster
    return {
        "cluster_name": [cluster.cluster_name],
        "cluster_tags": sorted(cluster.tags),
        "file_storage_dir": [cluster.file_storage_dir],
        "shared_file_storage_dir": [cluster.shared_file_storage_dir],
        "gluster_storage_dir": [cluster.gluster_storage_dir],
        "master_ip": [cluster.master_ip],
        "master_netdev": [cluster.master_netdev],
        "master_netmask": [str(cluster.master_netmask)],
        "primary_ip_family": [str(cluster.primary_ip_family)],
        "hypervisor_list": [one.value for one in cluster.enabled_hypervisors],
        "maintain_node_health": [str(cluster.maintain_node_health)],
        "enabled_user_shutdown": [str(cluster.enabled_user_shutdown)],
        "uid_pool": [str(low) if low == high else f"{low}-{high}" for low, high in cluster.uid_pool],
    }


def _node_values(config: Config) -> SsconfValues:
    nodes = _by_name(config.nodes.values())
    return {
        "node_list": [node.name for node in nodes],
        "node_primary_ips": [f"{node.name} {node.primary_ip}" for node in nodes],
        "node_secondary_ips": [f"{node.name} {node.secondary_ip}" for node in nodes],
        "node_vm_capable": [f"{node.name}={node.vm_capable}" for node in nodes],
        "offline_nodes": [node.name for node in nodes if node.offline],
        "online_nodes": [node.name for node in nodes if not node.offline],
        "ssh_ports": [f"{node.name}={_ssh_port(config, node)}" for node in nodes],
    }


def _master_values(config: Config) -> SsconfValues:
    cluster = config.cluster
    master = config.nodes.get(cluster.master_node)
    candidates = [node for uuid, node in sorted(config.nodes.items()) if _is_candidate(config, uuid, node)]
    return {
        "master_node": [master.name if master else "NO MASTER"],
        "master_candidates": [node.name for node in candidates],
        "master_candidates_ips": [node.primary_ip for node in candidates],
        "master_candidates_certs": [f"{uuid}={digest}" for uuid, digest in sorted(cluster.candidate_certs.items())],
    }


def _is_candidate(config: Config, uuid: NodeUuid, node: Node) -> bool:
    return node.master_candidate or uuid == config.cluster.master_node


def _ssh_port(config: Config, node: Node) -> int:
    group = config.nodegroups.get(node.group)
    for params in (node.ndparams, group.ndparams if group else None):
        if params is not None and params.ssh_port is not None:
            return params.ssh_port
    return config.cluster.ndparams.ssh_port


def _hvparams(params: Params) -> Sequence[str]:
    return [f"{name}={_bare(value)}" for name, value in sorted(params.items())]


def _bare(value: object) -> str:
    return str(value) if isinstance(value, str | bool | int | float) else ascii_json(value).decode("ascii")


def _naturally(names: Iterable[str]) -> Sequence[str]:
    return sorted(names, key=natural_key)


def _by_name(objects: Iterable[_Named]) -> Sequence[_Named]:
    return sorted(objects, key=lambda one: natural_key(one.name))
