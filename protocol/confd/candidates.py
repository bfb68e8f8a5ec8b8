"""Whom to ask, and the key: from the files of a node.

Source: confd.md 6.
"""

from collections.abc import Sequence

from common.errors import NotFound
from common.paths import Paths
from protocol.confd.gathering import Peer


def candidates(paths: Paths, port: int) -> Sequence[Peer]:
    """The master candidates that this node knows, the master among them. Raises: NotFound, OSError."""
    path = paths.ssconf_file("master_candidates_ips")
    try:
        hosts = path.read_text("utf-8", "replace").split()
    except FileNotFoundError:
        hosts = []
    if not hosts:
        raise NotFound(f"this node knows no master candidates ('{path}'); write it by: gnt-cluster redist-conf")
    return [Peer(host, port) for host in hosts]


def read_key(paths: Paths) -> bytes:
    """All bytes of the key, also its last newline. Raises: NotFound, OSError."""
    try:
        return paths.hmac_key.read_bytes()
    except FileNotFoundError:
        raise NotFound(
            f"this node has no key for confd ('{paths.hmac_key}'); 'gantry up' makes it on the master, and "
            "'gnt-cluster redist-conf' sends it to the nodes"
        ) from None
