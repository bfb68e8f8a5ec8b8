"""The certificates of an installation: made where they are missing.

Source: noded.md 3.
"""

import datetime

from common.errors import NotFound
from common.nodes.certificates.nodecertificates import (
    make_cluster_certificate,
    make_node_certificate,
    write_certificate,
)
from common.nodes.certificates.pemcontent import digest_of, has_key
from common.paths import Paths


def make_missing(paths: Paths, node_name: str) -> str:
    """Make the cluster's certificate and this node's, where they are missing; return the digest of the node's.

    Raises: DamagedFile: a file is there and holds no certificate. NotFound: only a candidate could make it. OSError.
    Durability: on return both survive a loss of power.
    """
    now = datetime.datetime.now(datetime.UTC)
    if not paths.server_pem.exists():
        write_certificate(paths.server_pem, make_cluster_certificate(now))
    if not paths.client_pem.exists():
        if not has_key(paths.server_pem.read_bytes()):
            raise NotFound(
                f"'{paths.client_pem}' is missing, and this node cannot make it: the key of the cluster is on master "
                f"candidates only; let the node come back: gnt-cluster join-token --readd {node_name}, on the master"
            )
        node = make_node_certificate(paths.server_pem.read_bytes(), node_name, now)
        write_certificate(paths.client_pem, node)
    return digest_of(paths.client_pem.read_bytes())
