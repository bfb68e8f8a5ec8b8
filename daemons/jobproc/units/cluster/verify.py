"""The opcodes that verify the cluster, its configuration and its node groups."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from common.errors import PrerequisiteError, ReservationError
from common.locks import LockLevel
from common.nodes.candidates import missing_candidates
from common.objects.addresspool import AddressPool
from common.objects.config import Node, NodeGroup, filled
from common.objects.index import ConfigIndex
from common.objects.kinds import Hypervisor, NetworkUuid
from common.objects.parameters import changed_hypervisor_parameters
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterVerify, OpClusterVerifyConfig, OpClusterVerifyGroup
from common.paths import Paths
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.cluster.findings import (
    CERTIFICATE,
    CONFIG,
    DANGLING_INSTANCES,
    DANGLING_NODES,
    Findings,
)
from daemons.jobproc.units.objects import GROUP, ObjectKind, ObjectUnit
from protocol.luxi.jobs import JobInput

# OP_CLUSTER_VERIFY: submits the jobs that verify the configuration, and each node group after that.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY.


_SHARED: Final = ("debug_simulate_errors", "error_codes", "ignore_errors", "verbose")
_OF_GROUPS: Final = (*_SHARED, "skip_checks", "verify_clutter")


class ClusterVerifyUnit(LogicalUnit[OpClusterVerify]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterVerify

    def check_prereq(self, context: UnitContext) -> None:
        config, name = context.config, self.op.group_name
        self._groups = [GROUP.named(config, name).name] if name is not None else [group.name for group in config.groups]

    def run(self, context: UnitContext) -> object:
        """Return the jobs."""
        jobs: list[JobInput] = []
        if self.op.group_name is None:
            jobs.append(({"OP_ID": "OP_CLUSTER_VERIFY_CONFIG", **self._values(_SHARED)},))
        for name in self._groups:
            op = {"OP_ID": "OP_CLUSTER_VERIFY_GROUP", "group_name": name, **self._values(_OF_GROUPS)}
            jobs.append((op if self.op.group_name else {**op, "depends": [[-len(jobs), []]]},))
        return {"jobs": context.submit_jobs(jobs)}

    def _values(self, names: tuple[str, ...]) -> dict[str, object]:
        values = {name: getattr(self.op, name) for name in names}
        skipped = values.pop("skip_checks", None)
        if skipped is not None:
            values["skip_checks"] = [check.value for check in skipped]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


# OP_CLUSTER_VERIFY_GROUP: whether the nodes of a group reply, and have the files and certificates of the cluster.
#
# Instances and their disks are not looked at here. A cluster of one machine has no nodes to ask.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY_GROUP; noded.md 6; recorded jobs.


if TYPE_CHECKING:
    from daemons.jobproc.units.cluster.nodefaults import NodeFaults

_LATER_STEPS: Final = (
    "* Verifying instance status",
    "* Verifying orphan volumes",
    "* Verifying N+1 Memory redundancy",
    "* Other Notes",
    "* Hooks Results",
)


class ClusterVerifyGroupUnit(ObjectUnit[OpClusterVerifyGroup, NodeGroup]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterVerifyGroup
    KIND: ClassVar[ObjectKind[NodeGroup]] = GROUP

    def expand_names(self, context: UnitContext) -> None:
        super().expand_names(context)
        config = context.config
        self._nodes = config.group_nodes(self.target.uuid)
        instances = sorted({name for node in self._nodes for name in config.primaries(node.uuid)})
        others = {LockLevel.INSTANCE: instances, LockLevel.NODE: [node.uuid for node in self._nodes]}
        self.lock_names = {**self.lock_names, **others}

    def run(self, context: UnitContext) -> bool:
        """Return whether all is well, ignored faults aside."""
        config, findings = context.config, Findings(self.op, context.feedback)
        count = f"({len(self._nodes)} nodes)"
        context.feedback(f"* Verifying group '{self.target.name}'")
        context.feedback(f"* Gathering data {count}")
        context.feedback(f"* Gathering information about nodes {count}")
        # the master's own files are what the others are compared with, and it may have no node daemon
        master = config.cluster.master_node
        faults = _ask(context, [node for node in self._nodes if not node.offline and node.uuid != master])
        context.feedback(f"* Gathering disk information {count}")
        context.feedback("* Verifying configuration file consistency")
        context.feedback("* Verifying node status")
        if faults is not None:
            faults.tell(findings)
        for step in _LATER_STEPS:
            context.feedback(step)
        return not findings.is_bad


def _ask(context: UnitContext, nodes: Sequence[Node]) -> "NodeFaults | None":
    """What is wrong with these nodes; None: the cluster has one machine."""
    if not context.settings.cluster.has_nodes:
        return None
    # imported late: see there
    from daemons.jobproc.units.cluster.nodefaults import ask_nodes

    return ask_nodes(context, nodes)


# What is wrong with a configuration beyond what wconfd checks: what Ganeti's programs check on their side. Pure.
#
# Source: wconfd.md 7.6, second paragraph.


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
            AddressPool.of(network)
        except ReservationError as error:
            yield error.message
    for group in config.groups:
        for uuid in group.networks:
            if NetworkUuid(uuid) not in config.config.networks:
                yield f"node group '{group.name}' is connected to network '{uuid}', which does not exist"


def _repeated(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


# OP_CLUSTER_VERIFY_CONFIG: whether the configuration is consistent, and the certificates of this node are good.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY_CONFIG; wconfd.md 7.6; recorded jobs.


class ClusterVerifyConfigUnit(LogicalUnit[OpClusterVerifyConfig]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterVerifyConfig

    def run(self, context: UnitContext) -> bool:
        """Return whether all is well, ignored faults aside."""
        config, findings = context.config, Findings(self.op, context.feedback)
        context.feedback("* Verifying cluster config")
        problems = [*config.wconfds_problems(), *config_faults(config)]
        findings.check(CONFIG, dict.fromkeys(problems), "simulated fault of the configuration")
        context.feedback("* Verifying cluster certificate files")
        has_nodes = context.settings.cluster.has_nodes
        faults = _certificate_faults(context.settings.paths) if has_nodes else ()
        findings.check(CERTIFICATE, faults, "simulated fault of a certificate")
        context.feedback("* Verifying hypervisor parameters")
        findings.check(CONFIG, _parameter_faults(config), "simulated fault of hypervisor parameters")
        context.feedback("* Verifying all nodes belong to an existing group")
        findings.check(DANGLING_NODES, _dangling_nodes(config), "simulated node without a group")
        findings.check(DANGLING_INSTANCES, _dangling_instances(config), "simulated instance without a node")
        return not findings.is_bad


def _certificate_faults(paths: Paths) -> Iterator[str]:
    # imported late: it costs as much as all the rest of a job
    from common.nodes.certificates import faults_in_file

    for path in (paths.server_pem, paths.client_pem):
        yield from faults_in_file(path)


def _parameter_faults(config: ConfigIndex) -> Iterator[str]:
    """Unknown names and wrong values, of the cluster, of operating systems and of instances."""
    for hypervisor in config.cluster.enabled_hypervisors:
        yield from _faults(hypervisor, config.cluster.hvparams.get(hypervisor, {}), "cluster")
    for system, hypervisors in config.cluster.os_hvp.items():
        for hypervisor, values in hypervisors.items():
            yield from _faults(hypervisor, values, f"os {system}")
    for instance in config.instances:
        if instance.hypervisor is not None:
            yield from _faults(instance.hypervisor, instance.hvparams, f"instance {instance.name}")


def _faults(hypervisor: Hypervisor, values: object, source: str) -> Iterator[str]:
    try:
        changed_hypervisor_parameters(hypervisor, {}, values if isinstance(values, dict) else {})
    except PrerequisiteError as error:
        yield f"hypervisor {hypervisor.value} parameters (source {source}): {error.message}"


def _dangling_nodes(config: ConfigIndex) -> Iterator[str]:
    lost = [node for node in config.nodes if node.group not in config.config.nodegroups]
    if lost:
        shown = ", ".join(f"{node.name} ({', '.join(config.primaries(node.uuid))})" for node in lost)
        yield f"the following nodes (and their instances) belong to a non existing group: {shown}"


def _dangling_instances(config: ConfigIndex) -> Iterator[str]:
    lost = [
        str(instance.name)
        for instance in config.instances
        if instance.primary_node is not None and instance.primary_node not in config.config.nodes
    ]
    if lost:
        yield f"the following instances have a non-existing primary-node: {', '.join(lost)}"
