"""OP_CLUSTER_VERIFY_CONFIG: whether the configuration is consistent, and the certificates of this node are good.

Source: opcodes.md 4 and 6.2, CLUSTER_VERIFY_CONFIG; wconfd.md 7.6; recorded jobs.
"""

from collections.abc import Iterator
from typing import ClassVar

from common.errors import PrerequisiteError
from common.objects.index import ConfigIndex
from common.objects.kinds import Hypervisor
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterVerifyConfig
from common.paths import Paths
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.cluster.configfaults import config_faults
from daemons.jobproc.units.cluster.findings import CERTIFICATE, CONFIG, DANGLING_INSTANCES, DANGLING_NODES, Findings
from daemons.jobproc.units.cluster.hypervisorvalues import changed_parameters


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
    from common.nodes.certificates.certificatefaults import faults_in_file

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
        changed_parameters(hypervisor, {}, values if isinstance(values, dict) else {})
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
