"""Calls of ours that renew certificates: keys are made on their nodes, and the master signs.

Source: DESIGN section 13; noded.md 3.
"""

import attrs

from protocol.noded.call import URGENT_S, NodeCall


@attrs.frozen
class RequestCertificate(NodeCall[str]):
    """Make a new key beside the one in use; return the PEM of the request to sign it. Twice, it is the same key."""

    METHOD = "gantry_request_certificate"
    LIMIT_S = URGENT_S


@attrs.frozen
class InstallCertificate(NodeCall[None]):
    """Use the new key with this certificate from now on."""

    METHOD = "gantry_install_certificate"
    LIMIT_S = URGENT_S
    # PEM
    certificate: str


@attrs.frozen
class PutClusterCertificate(NodeCall[None]):
    """Replace the cluster's certificate, `server.pem`, as this node has it."""

    METHOD = "gantry_put_cluster_certificate"
    LIMIT_S = URGENT_S
    # PEM: its key, for master candidates alone; the certificate; others that are trusted as well
    content: str = attrs.field(repr=False)
