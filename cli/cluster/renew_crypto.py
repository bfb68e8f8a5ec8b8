"""`gnt-cluster renew-crypto`: renew the certificates of cluster and nodes.

Source: opcodes.md 4; DESIGN section 13.
"""

from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.context import installation
from cli.screen import remark
from cli.submitting.submitoptions import SubmitOptions, submit_options
from common.daemons import Place
from common.errors import Conflict
from common.nodes.nodeplace import place_of


@click.command(
    "renew-crypto",
    cls=Command,
    examples=(
        "gnt-cluster renew-crypto --new-node-certificates",
        "gnt-cluster renew-crypto --new-cluster-certificate",
    ),
)
@click.option("--new-cluster-certificate", "is_cluster", is_flag=True, help="A new one for the cluster, and the nodes.")
@click.option("--new-node-certificates", "is_nodes", is_flag=True, help="New ones for all nodes that are online.")
@submit_options
def renew_crypto(is_cluster: bool, is_nodes: bool, **options: Unpack[SubmitOptions]) -> int:
    """Renew certificates by a job; with neither option it finishes a renewal that has failed.

    All daemons go on meanwhile. A node that is offline keeps its old certificate, and comes back with a
    token of 'gnt-cluster join-token --readd NODE'.
    """
    settings = installation()
    paths = settings.paths
    if is_cluster:
        if not settings.cluster.has_nodes or place_of(settings) is not Place.MASTER:
            raise Conflict("a new certificate of the cluster is made on the master of a cluster of several machines")
        # imported late: few commands need it
        from common.nodes.certificates.nextcertificate import make_next

        if not make_next(paths):
            remark("an earlier renewal is not finished; this one goes on with its certificate")
    renews_nodes = is_nodes or is_cluster or paths.next_server_pem.exists()
    op = {"OP_ID": "OP_CLUSTER_RENEW_CRYPTO", "node_certificates": renews_nodes}
    return carry_out(op, options, "gnt-cluster", "renew-crypto")
