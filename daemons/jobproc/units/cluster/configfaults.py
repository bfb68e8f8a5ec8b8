"""What is wrong with a configuration beyond what wconfd checks: what Ganeti's programs check on their side. Pure.

Source: wconfd.md 7.6, second paragraph.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from common.errors import ReservationError
from common.nodes.candidatepool import missing_candidates
from common.objects.index import ConfigIndex
from common.objects.kinds import NetworkUuid
from common.objects.networks.addresspool import Pool
from common.objects.params import filled

_ROLES: Final = ("master_candidate", "drained", "offline")


def config_faults(config: ConfigIndex) -> Iterator[str]:
    """All faults; none if the configuration is consistent. Cost: O(objects)."""
    yield from _node_faults(config)
    yield from _instance_faults(config)
    yield from _network_faults(config)
    for kind, objects in (("node group", config.groups), ("network", config.networks), ("node", config.nodes)):
        for name in _repeated(each.name for each in objects):
            yield f"several objects of kind {kind} are called '{name}'"


def _node_faults(config: ConfigIndex) -> Iterator[str]:
    cluster = config.cluster
    master = config.config.nodes.get(cluster.master_node)
    if master is not None and not master.master_candidate:
        yield "Master node is not a master candidate"
    if missing := missing_candidates(config.nodes, cluster.candidate_pool_size):
        have = sum(node.master_candidate for node in config.nodes)
        yield f"Not enough master candidates: actual {have}, target {have + missing}"
    for node in config.nodes:
        if sum(getattr(node, role) for role in _ROLES) > 1:
            roles = ", ".join(f"{role}={getattr(node, role)}" for role in _ROLES)
            yield f"node '{node.name}' has more than one of its exclusive roles: {roles}"
    addresses = [address for node in config.nodes for address in {node.primary_ip, node.secondary_ip}]
    for address in _repeated([*addresses, cluster.master_ip]):
        yield f"the address {address} is used more than once: by nodes, or by the cluster and a node"


def _instance_faults(config: ConfigIndex) -> Iterator[str]:
    macs = [nic.mac for instance in config.instances for nic in instance.nics]
    for mac in _repeated(macs):
        yield f"the MAC address {mac} is used by several interfaces"
    default = config.cluster.nicparams["default"]
    places = []
    for instance in config.instances:
        for index in config.secondary_nodes(instance):
            if index not in config.config.nodes:
                yield f"instance '{instance.name}' has the secondary node '{index}', which does not exist"
        for number, disk in enumerate(config.disks(instance)):
            if disk.iv_name != f"disk/{number}":
                yield f"disk {number} of instance '{instance.name}' is called '{disk.iv_name}', not 'disk/{number}'"
        for nic in instance.nics:
            if nic.ip:
                link = nic.network or filled(default, nic.nicparams).link
                places.append(f"{nic.ip} of {link}")
    for place in _repeated(places):
        yield f"the address {place} is used by several interfaces"


def _network_faults(config: ConfigIndex) -> Iterator[str]:
    for network in config.networks:
        try:
            Pool.of(network)
        except ReservationError as error:
            yield error.message
    for group in config.groups:
        for uuid in group.networks:
            if NetworkUuid(uuid) not in config.config.networks:
                yield f"node group '{group.name}' is connected to network '{uuid}', which does not exist"


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]
