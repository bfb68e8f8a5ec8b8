"""Calls of node daemons for the opcodes on nodes. Imported late: other units call no nodes.

Theory. A node obeys callers whose certificates are those of candidates, as far as its files of ssconf tell. A new
node has no such files and obeys the holder of the cluster's own certificate. So a call that is refused is repeated
with that one.

Source: noded.md 3.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from common.errors import PrerequisiteError
from common.nodes.certificates import certificates_in
from common.nodes.mastership import own_epoch
from common.objects.config import CONFIG_VERSION, Node
from common.settings import Settings
from protocol.noded.call import Failed, FailureKind, NodeAddress, NodeCall, Outcome, Replied
from protocol.noded.clients.blocking import BlockingNodeClient
from protocol.noded.clients.certificates import CertificateFiles
from protocol.noded.facts import NodeHasIpAddress
from protocol.noded.membership import (
    CryptoToken,
    NodeCryptoTokens,
    NodeDemoteFromMc,
    NodeLeaveCluster,
    NodeVersion,
    PutClusterCertificate,
    TokenRequest,
)

R = TypeVar("R")

# limits of the calls; all of them are little work for a node
_LOOK_S: Final = 15.0
_CHANGE_S: Final = 30.0
_DIGEST: Final = NodeCryptoTokens((TokenRequest("ssl_digest", "get", None),))
_DIGEST_FORM: Final = re.compile(r"[0-9A-F]{2}(:[0-9A-F]{2}){19}")
_ONE_MACHINE: Final = (
    "'replication' in '[cluster]' is 'none', so nodes cannot be called; set it to 'nodes', and restart the daemons"
)
# what to do about a node that is to be added and does not reply
_ADVICE: Final[Mapping[FailureKind, str]] = {
    FailureKind.UNTRUSTED: "it belongs to another cluster or to none; let it join this one first: gantry join",
    FailureKind.REFUSED: (
        "it has the certificate of this cluster, but obeys other callers; remove the file "
        "'ssconf_master_candidates_certs' there if it was a node of this cluster before"
    ),
    FailureKind.OUTDATED: "run this on the new master",
}


def master_client(settings: Settings, files: CertificateFiles | None = None) -> BlockingNodeClient:
    """A client that calls as the master.

    Args: files: certificate to show; None: this node's own.
    Raises: NoLongerMaster: another node has become the master since.
    """
    epoch = own_epoch(settings.paths.epoch_file, settings.cluster.own_name)
    return BlockingNodeClient(files or CertificateFiles.of(settings.paths), epoch=epoch)


def address_of(node: Node, settings: Settings) -> NodeAddress:
    return NodeAddress(node.name, node.primary_ip, settings.noded.port)


class NodeCalls:
    """Calls of node daemons.

    Raises: PrerequisiteError: the installation has one machine.
    """

    def __init__(self, settings: Settings) -> None:
        if not settings.cluster.has_nodes:
            raise PrerequisiteError(_ONE_MACHINE, "environment_error")
        self._settings = settings
        self._usual = master_client(settings)
        server = settings.paths.server_pem
        # PEM of the cluster's key and certificate
        self._certificate = server.read_bytes()
        self._first = master_client(settings, CertificateFiles(server, server))

    def check_member(self, node: Node) -> None:
        """Check that a node daemon of this cluster and of our version replies there.

        Raises: PrerequisiteError: it does not; the message says what to do.
        """
        outcome = self._call([node], NodeVersion(), _LOOK_S)[node.name]
        if isinstance(outcome, Failed):
            raise PrerequisiteError(f"{outcome.text}; {_advice(outcome.kind)}", "environment_error")
        if isinstance(outcome, Replied) and outcome.value != CONFIG_VERSION:
            raise PrerequisiteError(
                f"node '{node.name}' has the protocol version {outcome.value}, this cluster {CONFIG_VERSION}; install "
                "the same release there",
                "environment_error",
            )

    def digest_of(self, node: Node) -> str:
        """The digest of the node's certificate. Raises: PrerequisiteError: it cannot be had."""
        digest = self.digests_of([node])[node.name]
        if isinstance(digest, Failed):
            raise PrerequisiteError(
                f"the certificate of node '{node.name}' is not known, so it cannot become a master candidate: "
                f"{digest.text}",
                "environment_error",
            )
        return digest

    def digests_of(self, nodes: Sequence[Node]) -> Mapping[str, str | Failed]:
        """The digests of the certificates of nodes that become candidates, by name; why there is none where that fails.

        They get the key of the cluster before, as a master needs it; nodes of a Ganeti have it.
        """
        given = self._put_certificate(nodes, self._certificate)
        faults = {name: each for name, each in given.items() if isinstance(each, Failed)}
        outcomes = self._call([node for node in nodes if node.name not in faults], _DIGEST, _LOOK_S)
        return faults | {name: _digest_in(name, outcome) for name, outcome in outcomes.items()}

    def demote(self, node: Node) -> str | None:
        """Let a node that is no longer a candidate remove its configuration and the cluster's key; returns why not."""
        fault = _fault(self._call([node], NodeDemoteFromMc(), _CHANGE_S)[node.name])
        without_key = b"".join(certificates_in(self._certificate))
        return fault or _fault(self._put_certificate([node], without_key)[node.name])

    def leave(self, node: Node) -> str | None:
        """Let a node forget the cluster; returns why it did not."""
        call = NodeLeaveCluster(modify_ssh_setup=False)
        return _fault(self._call([node], call, _CHANGE_S)[node.name])

    def has_address(self, node: Node, address: str) -> bool:
        """Raises: PrerequisiteError: the node does not reply."""
        outcome = self._call([node], NodeHasIpAddress(address), _LOOK_S)[node.name]
        if isinstance(outcome, Replied):
            return outcome.value
        raise PrerequisiteError(_fault(outcome) or "", "environment_error")

    def _put_certificate(self, nodes: Sequence[Node], content: bytes) -> Mapping[str, Outcome[None]]:
        outcomes = self._call(nodes, PutClusterCertificate(content.decode()), _CHANGE_S)
        # a node daemon of Ganeti does not know the call
        return {name: Replied(None) if is_unknown(each) else each for name, each in outcomes.items()}

    def _call(self, nodes: Sequence[Node], call: NodeCall[R], limit_s: float) -> Mapping[str, Outcome[R]]:
        addresses = [address_of(node, self._settings) for node in nodes]
        outcomes = dict(self._usual.call_nodes(addresses, call, limit_s, even_paused=True))
        refused = [address for address in addresses if _is_refusal(outcomes[address.name])]
        if refused:
            others = self._first.call_nodes(refused, call, limit_s, even_paused=True)
            outcomes |= {name: other for name, other in others.items() if isinstance(other, Replied)}
        return outcomes


def is_unknown(outcome: Outcome[R]) -> bool:
    """Whether the node's daemon does not know this call of ours, as Ganeti's."""
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.UNKNOWN


def _is_refusal(outcome: Outcome[R]) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.REFUSED


def _digest_in(name: str, outcome: Outcome[tuple[CryptoToken, ...]]) -> str | Failed:
    if isinstance(outcome, Failed):
        return outcome
    if isinstance(outcome, Replied) and len(outcome.value) == 1 and _DIGEST_FORM.fullmatch(outcome.value[0].token):
        return outcome.value[0].token
    return Failed(FailureKind.GARBLED, f"node '{name}' gave no digest of its certificate")


def _fault(outcome: Outcome[R]) -> str | None:
    return outcome.text if isinstance(outcome, Failed) else None


def _advice(kind: FailureKind) -> str:
    return _ADVICE.get(kind, "is its node daemon running there (gantry-noded), and is the address right?")
