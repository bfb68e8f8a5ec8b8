"""OP_CLUSTER_RENAME: gives the cluster another name, under the BGL.

Nodes know the name by ssconf, which wconfd sends to them. The master's address stays: a name that has another one is
refused. A cluster of one machine has a local address, and its name need have none.

Source: opcodes.md 4 and 6.2, CLUSTER_RENAME.
"""

import ipaddress
import re
import socket
from typing import ClassVar, Final

import attrs

from common.errors import PrerequisiteError
from common.objects.cluster import Cluster
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterRename
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


class ClusterRenameUnit(LogicalUnit[OpClusterRename]):
    OPCODE: ClassVar[type[OpCode]] = OpClusterRename

    def check_prereq(self, context: UnitContext) -> None:
        cluster, name = context.config.cluster, self.op.name
        if not _NAME.fullmatch(name):
            raise PrerequisiteError(f"{name!r:.80} is not a name for a cluster: write it as a host's", "wrong_input")
        if not ipaddress.ip_address(cluster.master_ip).is_loopback:
            _check_address(cluster, name)
        if name == cluster.cluster_name:
            raise PrerequisiteError("neither the name nor the address of the cluster would change", "wrong_input")

    def run(self, context: UnitContext) -> str:
        """Return the new name."""
        context.config.change_cluster(attrs.evolve(context.config.cluster, cluster_name=self.op.name))
        return self.op.name


def _check_address(cluster: Cluster, name: str) -> None:
    try:
        found = socket.getaddrinfo(name, None, family=cluster.primary_ip_family, type=socket.SOCK_STREAM)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PrerequisiteError(f"the address of '{name}' is not known: {reason}", "resolver_error") from error
    addresses = {str(each[4][0]) for each in found}
    if cluster.master_ip not in addresses:
        raise PrerequisiteError(
            f"'{name}' has the address {min(addresses)}, the cluster {cluster.master_ip}; a job here cannot move the "
            "cluster to another address",
            "wrong_input",
        )
