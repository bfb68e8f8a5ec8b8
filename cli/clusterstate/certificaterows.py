"""The certificates of the cluster and of all nodes, for `gnt-cluster verify`."""

from collections.abc import Iterator, Mapping
from typing import Final

from cli.connection import ask_luxid
from common.errors import GantryError
from common.nodes.certificates.certificatefaults import faults_in_file
from common.settings import Settings
from protocol.luxi.queries import QueryNodes
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.clients.nodes import NodeAddress
from protocol.noded.clients.outcomes import Failed, Outcome, Replied
from protocol.noded.verifying import Check, NodeVerify

_FIELDS: Final = ("name", "pip", "offline")
_LIMIT_S: Final = 15.0
_RENEW: Final = "renew it with: gnt-cluster renew-crypto"


def certificate_problems(settings: Settings) -> list[str]:
    """What is wrong with the certificates on this node, and on the others if luxid can be asked which they are.

    Raises: PermissionError: this user may not read this node's certificate.
    """
    paths = settings.paths
    own = [*faults_in_file(paths.server_pem), *faults_in_file(paths.client_pem)]
    if paths.next_server_pem.exists():
        own.append("a renewal of the cluster's certificate is not finished; finish it with: gnt-cluster renew-crypto")
    client = BlockingNodeClient(CertificateFiles.of(paths))
    call = NodeVerify({Check.CLIENT_CERT.value: None}, "", {})
    return [*own, *_problems_of(client.call_nodes(_online_nodes(settings.noded.port), call, _LIMIT_S))]


def _online_nodes(port: int) -> list[NodeAddress]:
    """All nodes that are online; none if luxid cannot be asked, which another check reports."""
    try:
        rows = ask_luxid(QueryNodes((), _FIELDS))
    except GantryError:
        return []
    return [NodeAddress(str(name), str(ip), port) for name, ip, offline in rows if not offline]


def _problems_of(outcomes: Mapping[str, Outcome[Mapping[str, object]]]) -> Iterator[str]:
    for name, outcome in outcomes.items():
        if isinstance(outcome, Failed):
            yield f"the certificate of node '{name}' could not be checked: {outcome.text}"
        elif isinstance(outcome, Replied):
            finding = outcome.value.get(Check.CLIENT_CERT.value)
            # Ganeti's pair: the weight of a fault and its text, or null
            if isinstance(finding, list | tuple) and len(finding) == 2 and finding[0] is not None:
                yield f"node '{name}': {finding[1]}; {_RENEW} --new-node-certificates"
