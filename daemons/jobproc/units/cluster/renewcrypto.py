"""OP_CLUSTER_RENEW_CRYPTO: new certificates for the nodes, and for the cluster if one is waiting.

The opcode has no parameter for the cluster's certificate. `gnt-cluster renew-crypto --new-cluster-certificate` makes it
and lets it wait in a file; every renewal then takes it into use, or goes on with that.

Source: opcodes.md 4; DESIGN section 13.
"""

from typing import ClassVar

from common.errors import PrerequisiteError, wrong_input
from common.nodes.candidates import holder_of
from common.opcodes.base import OpCode
from common.opcodes.cluster import OpClusterRenewCrypto
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.base import LogicalUnit


class RenewCryptoUnit(LogicalUnit[OpClusterRenewCrypto]):
    """Killed or failed anywhere, it is repeated from the beginning, and finishes."""

    OPCODE: ClassVar[type[OpCode]] = OpClusterRenewCrypto

    def check_prereq(self, context: UnitContext) -> None:
        if self.op.renew_ssh_keys or self.op.ssh_key_type is not None or self.op.ssh_key_bits is not None:
            raise wrong_input("ssh keys of nodes are not managed here; leave their options out")
        if not context.settings.cluster.has_nodes:
            raise PrerequisiteError(
                "this cluster is one machine and has no certificates ('replication' in '[cluster]' is 'none')",
                "wrong_state",
            )

    def run(self, context: UnitContext) -> None:
        # imported late: few jobs need them
        from daemons.jobproc.units.renewal import ClusterCertificate, RenewalCalls, renew_node_certificates
        from protocol.noded.membership import NodeVersion

        paths, config = context.settings.paths, context.config
        master = config.master
        others = [node for node in config.nodes if node.uuid != master.uuid]
        for node in others:
            if node.offline:
                context.feedback(
                    f"warning: node '{node.name}' is offline and keeps its old certificate; let it come back with: "
                    f"gnt-cluster join-token --readd {node.name}"
                )
        calls = RenewalCalls(context.settings, [node for node in others if not node.offline])
        waiting = paths.next_server_pem
        new = waiting.read_bytes() if waiting.exists() else None
        is_unfinished = any(holder_of(key) != key for key in config.cluster.candidate_certs)
        if new is None and not self.op.node_certificates and not is_unfinished:
            context.feedback("nothing is to be renewed")
            return
        calls.on_all("reaching all nodes", {name: NodeVersion() for name in calls.nodes})
        if new is None:
            renew_node_certificates(context, calls, master, paths.server_pem.read_bytes())
            return
        cluster = ClusterCertificate(context, calls, master.name, new)
        cluster.trust_both(waiting)
        renew_node_certificates(context, calls, master, new)
        cluster.show()
        cluster.forget_old(waiting)
