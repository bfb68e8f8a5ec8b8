"""What the files of ssconf, which every node has, say of the nodes and the master.

Source: noded.md section 10.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.paths import Paths


def node_ips(paths: Paths) -> Mapping[str, str]:
    """Name -> primary address of all nodes; empty: this node knows none. Raises: OSError."""
    rows = (line.split() for line in _lines(paths.ssconf_file("node_primary_ips")))
    return {row[0]: row[1] for row in rows if len(row) == 2}


def offline_nodes(paths: Paths) -> frozenset[str]:
    """Raises: OSError."""
    return frozenset(_lines(paths.ssconf_file("offline_nodes")))


def candidate_names(paths: Paths) -> Sequence[str]:
    """The master candidates, the master among them. Raises: OSError."""
    return _lines(paths.ssconf_file("master_candidates"))


def master_name(paths: Paths) -> str:
    """The master; empty: this node knows none. Raises: OSError."""
    return next(iter(_lines(paths.ssconf_file("master_node"))), "")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
