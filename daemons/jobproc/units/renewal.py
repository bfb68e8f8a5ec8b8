"""New certificates for the cluster and its nodes, such that the master is obeyed by all of them at each moment."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from common.durable.atomicfile import remove_files
from common.durable.durably import durably
from common.errors import ConfigurationError, ExecutionError, PrerequisiteError, RemoteError
from common.nodes.candidates import Digests, with_both, without_old
from common.nodes.certificates import RenewalFiles, certificates_in, digest_of, has_key, key_in, sign_request
from common.objects.config import Node
from common.objects.kinds import NodeUuid
from common.paths import Paths
from common.settings import Settings
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.nodecalls import address_of, is_unknown, master_client
from protocol.noded.call import Failed, NodeCall, Outcome, Replied
from protocol.noded.membership import (
    CryptoToken,
    InstallCertificate,
    NodeCryptoTokens,
    NodeVersion,
    PutClusterCertificate,
    RequestCertificate,
    TokenRequest,
)

# Calls to all nodes but this one that are online; a step of a renewal is made on all of them, or the job ends.
#
# Source: DESIGN section 13.


R = TypeVar("R")

# limit of a step; each is little work for a node
_LIMIT_S: Final = 30.0
AGAIN: Final = (
    "nothing is lost, and the old certificates are still good; mend that, or mark the node offline (gnt-node modify "
    "--offline=yes NODE), and repeat: gnt-cluster renew-crypto"
)


class RenewalCalls:
    """Args: nodes: those that are called."""

    def __init__(self, settings: Settings, nodes: Sequence[Node]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._settings = settings
        self._client = master_client(settings)

    def ask(self, calls: Mapping[str, NodeCall[R]]) -> Mapping[str, Outcome[R]]:
        """Send each node its call; return what it came to, by name."""
        addressed = [(address_of(self.nodes[name], self._settings), call) for name, call in calls.items()]
        return self._client.call_each(addressed, _LIMIT_S, even_paused=True)

    def on_all(self, step: str, calls: Mapping[str, NodeCall[R]]) -> Mapping[str, R]:
        """Send each node its call; return the replies, by name.

        Raises: ExecutionError: a node has not done it; the step and the reasons are told.
        """
        return replies(step, self.ask(calls))


def replies(step: str, outcomes: Mapping[str, Outcome[R]]) -> Mapping[str, R]:
    """Raises: ExecutionError: a node has failed."""
    faults = [outcome.text for outcome in outcomes.values() if isinstance(outcome, Failed)]
    if faults:
        raise ExecutionError(f"{step} failed: {'; '.join(faults)}. {AGAIN}")
    return {name: outcome.value for name, outcome in outcomes.items() if isinstance(outcome, Replied)}


# A new certificate of the cluster, with a time between in which all nodes trust the old one and the new one.
#
# Theory. The new certificate waits in a file of its own on the master, as long as the renewal is not finished. First
# all nodes trust both; then all nodes get certificates that the new one has signed (`nodecertificates`); then they show
# the new one; at last they forget the old one, the master last of all. Each step is made on all nodes before the next
# begins, so two nodes always trust each other, and connections that are open go on. Each step may be repeated: which
# one is to be done tells the first certificate in the master's own file.
#
# Source: DESIGN section 13.


class ClusterCertificate:
    """Args: new: PEM of the new key and certificate."""

    def __init__(self, context: UnitContext, calls: RenewalCalls, own_name: str, new: bytes) -> None:
        self._context = context
        self._calls = calls
        self._paths: Paths = context.settings.paths
        self._files = RenewalFiles(self._paths, own_name)
        self._new = certificates_in(new)[0]
        self._new_key = key_in(new)
        content = self._paths.server_pem.read_bytes()
        self._is_shown = certificates_in(content)[0] == self._new
        self._old = [each for each in certificates_in(content) if each != self._new]
        self._old_key = b"" if self._is_shown or not has_key(content) else key_in(content)

    def trust_both(self, waiting: Path) -> None:
        """Let all nodes trust the new certificate beside the old one.

        Args: waiting: file in which it waits.
        Raises: ExecutionError: a node has not done it. PrerequisiteError: a node is a Ganeti's; the file is gone.
        """
        if self._is_shown:
            return
        self._refuse_theirs(waiting)
        self._put("trusting the new certificate of the cluster", self._old_key, [*self._old, self._new])
        self._context.feedback("all nodes trust the new certificate of the cluster beside the old one")

    def show(self) -> None:
        """Let all nodes show the new certificate, and still trust the old one. Raises: ExecutionError."""
        self._put("showing the new certificate of the cluster", self._new_key, [self._new, *self._old])
        self._context.feedback("all nodes show the new certificate of the cluster")

    def forget_old(self, waiting: Path) -> None:
        """Let all nodes trust the new certificate alone. Args: waiting: file in which it has waited."""
        outcomes = self._calls.ask(self._puts(self._new_key, [self._new]))
        for outcome in outcomes.values():
            if isinstance(outcome, Failed):
                self._context.feedback(f"warning: a node still trusts the old certificate: {outcome.text}")
        self._files.put_cluster((self._new_key + self._new).decode())
        durably(lambda: remove_files([waiting]))
        self._context.feedback("the old certificate of the cluster is no longer trusted")

    def _refuse_theirs(self, waiting: Path) -> None:
        """Refuse nodes that cannot get the new certificate, before any other trusts it."""
        asked = self._calls.ask({name: RequestCertificate() for name in self._calls.nodes})
        if theirs := [name for name, outcome in asked.items() if is_unknown(outcome)]:
            durably(lambda: remove_files([waiting]))
            raise PrerequisiteError(
                f"the node daemons of {', '.join(theirs)} are Ganeti's, which get a new certificate of the cluster by "
                "Ganeti's own tools only; nothing was changed",
                "wrong_state",
            )

    def _put(self, step: str, key: bytes, certificates: list[bytes]) -> None:
        self._calls.on_all(step, self._puts(key, certificates))
        self._files.put_cluster(b"".join([key, *certificates]).decode())

    def _puts(self, key: bytes, certificates: list[bytes]) -> dict[str, PutClusterCertificate]:
        """The calls; the key is for candidates alone, as any of them may become the master."""
        plain = b"".join(certificates).decode()
        whole = PutClusterCertificate(key.decode() + plain)
        without_key = PutClusterCertificate(plain)
        return {name: whole if node.master_candidate else without_key for name, node in self._calls.nodes.items()}


# New certificates for all nodes, such that the master is obeyed by all of them at each moment.
#
# Theory. The order is: new keys on the nodes, and their certificates signed; the digests of the new certificates into
# the configuration, beside those in use; all nodes that are online have that configuration; now the nodes use the new
# certificates, the master last; at last the old digests go. A job that dies anywhere leaves a state in which each
# certificate in use is known to all nodes, and the next renewal begins anew.
#
# Source: DESIGN section 13; noded.md 3.


_ATTEMPTS: Final = 5


def renew_node_certificates(context: UnitContext, calls: RenewalCalls, master: Node, signer: bytes) -> None:
    """Args: signer: PEM of the cluster's key and certificate that sign. Raises: ExecutionError: a node fails."""
    now = datetime.datetime.now(datetime.UTC)
    asked = calls.ask({name: RequestCertificate() for name in calls.nodes})
    # node daemons of Ganeti make key and certificate by themselves
    theirs = [name for name, outcome in asked.items() if is_unknown(outcome)]
    requests = replies("making new keys", {name: each for name, each in asked.items() if name not in theirs})
    signed = {name: _signed(signer, text, name, now) for name, text in requests.items()}
    own = RenewalFiles(context.settings.paths, master.name)
    own_certificate = _signed(signer, own.request(), master.name, now)
    in_use = {NodeUuid(master.uuid): digest_of(context.settings.paths.client_pem.read_bytes())}
    in_use |= _digests(calls, "get", [name for name in calls.nodes if calls.nodes[name].master_candidate])
    new = {NodeUuid(master.uuid): digest_of(own_certificate.encode())}
    new |= {
        NodeUuid(node.uuid): digest_of(signed[name].encode())
        for name, node in calls.nodes.items()
        if node.master_candidate and name in signed
    }
    _change(context, lambda known: with_both(known, in_use, new))
    _require_spread(context)
    calls.on_all("installing new certificates", {name: InstallCertificate(pem) for name, pem in signed.items()})
    _renew_theirs(context, calls, theirs)
    own.install(own_certificate)
    calls.on_all("calling the nodes with the new certificate", {name: NodeVersion() for name in calls.nodes})
    _change(context, without_old)
    for name in context.config.redistribute():
        context.feedback(f"warning: node '{name}' still obeys the old certificates; wconfd tries again")
    context.feedback(f"certificates of {len(calls.nodes) + 1} nodes renewed")


def _signed(signer: bytes, request: str, name: str, now: datetime.datetime) -> str:
    return sign_request(signer, request.encode(), name, now).decode()


def _renew_theirs(context: UnitContext, calls: RenewalCalls, names: list[str]) -> None:
    """Let node daemons of Ganeti renew their certificates, which they sign with the key that they have."""
    found = _digests(calls, "create", names)
    candidates = {node.uuid for node in calls.nodes.values() if node.master_candidate}
    new = {uuid: digest for uuid, digest in found.items() if uuid in candidates}
    if new:
        _change(context, lambda known: {**known, **new})


def _digests(calls: RenewalCalls, action: str, names: list[str]) -> dict[NodeUuid, str]:
    """The digests of the certificates of these nodes, after this action."""
    request = NodeCryptoTokens((TokenRequest("ssl_digest", action, None),))
    step = "making new certificates" if action == "create" else "reading the certificates in use"
    found: Mapping[str, tuple[CryptoToken, ...]] = calls.on_all(step, {name: request for name in names})
    return {NodeUuid(calls.nodes[name].uuid): tokens[0].token for name, tokens in found.items() if tokens}


def _change(context: UnitContext, change: Callable[[Digests], Digests]) -> None:
    """Change the candidates' digests in the configuration, which others may change as well."""
    for attempt in range(_ATTEMPTS):
        cluster = context.config.cluster
        try:
            context.config.update(attrs.evolve(cluster, candidate_certs=change(cluster.candidate_certs)))
            return
        except RemoteError as error:
            if error.wire_name != ConfigurationError.wire_name or attempt == _ATTEMPTS - 1:
                raise
            context.forget_config()


def _require_spread(context: UnitContext) -> None:
    """Raises: ExecutionError: a node that is online does not have the configuration."""
    if names := context.config.redistribute():
        missing = ", ".join(f"'{name}'" for name in names)
        raise ExecutionError(f"the new certificates are not yet known to {missing}, so nobody uses them. {AGAIN}")
