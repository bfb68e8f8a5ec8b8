"""The certificates of an installation: made where they are missing.

Source: noded.md 3.
"""

import datetime

from common.nodes.certificates import digest_of, make_cluster_certificate, make_node_certificate, write_certificate
from common.paths import Paths


def make_missing(paths: Paths, node_name: str) -> str:
    """Make the cluster's certificate and this node's, where they are missing; return the digest of the node's.

    Raises: DamagedFile: a file is there and holds no certificate. OSError.
    Durability: on return both survive a loss of power.
    """
    now = datetime.datetime.now(datetime.UTC)
    if not paths.server_pem.exists():
        write_certificate(paths.server_pem, make_cluster_certificate(now))
    if not paths.client_pem.exists():
        node = make_node_certificate(paths.server_pem.read_bytes(), node_name, now)
        write_certificate(paths.client_pem, node)
    return digest_of(paths.client_pem.read_bytes())
