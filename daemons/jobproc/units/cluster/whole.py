"""The opcodes on the cluster as a whole: ask, rename, send the configuration again."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from common.errors import wrong_input
from common.objects.config import Cluster
from common.opcodes.base import OpCode
from common.opcodes.cluster import (
    OpClusterConfigQuery,
    OpClusterPostInit,
    OpClusterQuery,
    OpClusterRedistConf,
    OpClusterRename,
)
from common.wire import unstructure
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit
from daemons.jobproc.units.nodes import addresses_of
from daemons.jobproc.units.sharedfiles import send_shared_files
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryClusterInfo, QueryConfigValues

# OP_CLUSTER_QUERY, OP_CLUSTER_CONFIG_QUERY and OP_CLUSTER_POST_INIT: what luxid knows of the cluster.
#
# Source: opcodes.md 4; luxid.md 2.8.


class ClusterQueryUnit(LogicalUnit[OpClusterQuery]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterQuery

    def run(self, context: UnitContext) -> Mapping[str, object]:
        """Return the facts of QueryClusterInfo."""
        with _luxid(context) as client:
            facts = client.call_retrying(QueryClusterInfo())
        return {name: unstructure(value) for name, value in facts.items()}


class ClusterConfigQueryUnit(LogicalUnit[OpClusterConfigQuery]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterConfigQuery

    def run(self, context: UnitContext) -> Sequence[object]:
        """Return the values of the named fields, in their order."""
        with _luxid(context) as client:
            return [unstructure(value) for value in client.call_retrying(QueryConfigValues(self.op.output_fields))]


class ClusterPostInitUnit(LogicalUnit[OpClusterPostInit]):
    """In Ganeti it runs the hooks after the making of a cluster; here there are none."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterPostInit

    def run(self, context: UnitContext) -> bool:
        return True


def _luxid(context: UnitContext) -> BlockingClient:
    return BlockingClient(context.settings.paths.query_socket, daemon="the queue daemon")


# OP_CLUSTER_RENAME: gives the cluster another name, under the BGL.
#
# Nodes know the name by ssconf, which wconfd sends to them. The master's address stays: a name that has another one is
# refused. A cluster of one machine has a local address, and its name need have none.
#
# Source: opcodes.md 4 and 6.2, CLUSTER_RENAME.


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class ClusterRenameUnit(LogicalUnit[OpClusterRename]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterRename

    def check_prereq(self, context: UnitContext) -> None:
        cluster, name = context.config.cluster, self.op.name
        if not _NAME.fullmatch(name):
            raise wrong_input(f"{name!r:.80} is not a name for a cluster: write it as a host's")
        if not ipaddress.ip_address(cluster.master_ip).is_loopback:
            _check_address(cluster, name)
        if name == cluster.cluster_name:
            raise wrong_input("neither the name nor the address of the cluster would change")

    def run(self, context: UnitContext) -> str:
        """Return the new name."""
        context.config.change_cluster(attrs.evolve(context.config.cluster, cluster_name=self.op.name))
        return self.op.name


def _check_address(cluster: Cluster, name: str) -> None:
    addresses = addresses_of(name, cluster.primary_ip_family, f"'{name}'")
    if cluster.master_ip not in addresses:
        raise wrong_input(
            f"'{name}' has the address {min(addresses)}, the cluster {cluster.master_ip}; a job here cannot move the "
            "cluster to another address"
        )


# OP_CLUSTER_REDIST_CONF: sends the configuration, and the other files that all nodes share, to the nodes again.
#
# Source: noded.md 8.


class RedistConfUnit(LogicalUnit[OpClusterRedistConf]):
    """Nodes that are not reached are told of in the job's log, and do not fail the job, as in Ganeti."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterRedistConf

    def run(self, context: UnitContext) -> None:
        # as Ganeti does it: the serial numbers rise
        context.config.update(context.config.cluster)
        has_nodes = context.settings.cluster.has_nodes
        next_step = "wconfd tries again" if has_nodes else "'replication' in '[cluster]' is 'none'"
        for name in context.config.redistribute():
            context.feedback(f"warning: the configuration has not reached node '{name}'; {next_step}")
        if has_nodes:
            for text in send_shared_files(context):
                context.feedback(f"warning: {text}")
