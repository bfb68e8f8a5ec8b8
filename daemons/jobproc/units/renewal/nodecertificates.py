"""New certificates for all nodes, such that the master is obeyed by all of them at each moment.

Theory. The order is: new keys on the nodes, and their certificates signed; the digests of the new certificates into
the configuration, beside those in use; all nodes that are online have that configuration; now the nodes use the new
certificates, the master last; at last the old digests go. A job that dies anywhere leaves a state in which each
certificate in use is known to all nodes, and the next renewal begins anew.

Source: DESIGN section 13; noded.md 3.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from common.errors import ConfigurationError, ExecutionError, RemoteError
from common.nodes.certificates.candidatecerts import Digests, with_both, without_old
from common.nodes.certificates.nodecertificates import sign_request
from common.nodes.certificates.pemcontent import digest_of
from common.nodes.certificates.renewalfiles import RenewalFiles
from common.objects.kinds import NodeUuid
from common.objects.node import Node
from daemons.jobproc.context import UnitContext
from daemons.jobproc.units.renewal.nodecalls import AGAIN, RenewalCalls, is_unknown, replies
from protocol.noded.membership import NodeCryptoTokens, Token, TokenRequest, Version
from protocol.noded.renewal import InstallCertificate, RequestCertificate

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
    calls.on_all("calling the nodes with the new certificate", {name: Version() for name in calls.nodes})
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
    found: Mapping[str, tuple[Token, ...]] = calls.on_all(step, {name: request for name in names})
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
