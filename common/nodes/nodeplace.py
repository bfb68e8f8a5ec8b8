"""The place of this node in its cluster, by its files of ssconf, and the daemons that run here.

Theory. The master writes ssconf on all nodes, so a node knows who was the master when it last heard of one. It is not
the master if it has heard of a newer epoch than its own. An old master that comes back may have heard nothing and
believe that it still is: its daemons then ask the other nodes. On one machine there is nothing to ask.

Under a lease in etcd, ssconf says only who the candidates are: a node is the master as long as its keeperd holds the
mastership, and tells so.

Source: DESIGN sections 12 and 14; masterfailover.md 1.
"""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.daemons import Daemon, NodeKind, start_order
from common.nodes.mastership import newer_master, read_not_master, read_seen
from common.paths import Paths
from common.settings import Settings


def place_of(settings: Settings) -> NodeKind:
    """Raises: OSError: a file of ssconf cannot be read. DamagedFile: the epoch, or the grant of a mastership."""
    paths = settings.paths
    if not settings.cluster.has_nodes:
        return NodeKind.MASTER
    if settings.cluster.has_lease and _holds_lease(settings):
        return NodeKind.MASTER
    masters = _lines(paths.ssconf_file("master_node"))
    if masters is None:
        # a node that has not heard of a master: a cluster to be made, or a node to be joined
        if paths.server_pem.exists() and not paths.config_data.exists():
            return NodeKind.ALL
        return NodeKind.CANDIDATES if settings.cluster.has_lease else NodeKind.MASTER
    if not settings.cluster.has_lease and _is_named(settings, masters):
        return NodeKind.MASTER
    candidates = _lines(paths.ssconf_file("master_candidates")) or ()
    return NodeKind.CANDIDATES if settings.cluster.own_name in candidates else NodeKind.ALL


def daemons_here(settings: Settings) -> tuple[Daemon, ...]:
    """The daemons of this node, in the order of their start. Raises: as `place_of`."""
    return start_order(place_of(settings), settings.features)


def why_not_master(settings: Settings) -> str | None:
    """Why the daemons of the master do not run here, for users; None: they should, as far as this node knows.

    Raises: as `place_of`.
    """
    if not settings.cluster.has_nodes:
        return None
    if place_of(settings) is NodeKind.MASTER:
        return read_not_master(settings.paths)
    masters = _lines(settings.paths.ssconf_file("master_node")) or ()
    if settings.cluster.has_lease:
        others = [name for name in masters if name != settings.cluster.own_name]
        last = f"; the last one that it has heard of is {others[0]}" if others else ""
        return f"this node is not the master{last}; 'gantry cluster' tells who is"
    if settings.cluster.own_name in masters:
        return f"this node is not the master; {newer_master(read_seen(settings.paths.epoch_file))}"
    return f"this node is not the master; {masters[0]} is" if masters else "this node knows no master"


def _is_named(settings: Settings, masters: list[str]) -> bool:
    """Whether ssconf names this node as the master, and it has heard of no newer one."""
    own_name = settings.cluster.own_name
    return own_name in masters and read_seen(settings.paths.epoch_file).is_of(own_name)


def _holds_lease(settings: Settings) -> bool:
    # imported late: most installations are one machine
    from common.lease.grant import is_held

    return is_held(settings.paths)


def _lines(path: Path) -> list[str] | None:
    """The lines of a file; None: there is none."""
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return None


# What the files of ssconf, which every node has, say of the nodes and the master.
#
# Source: noded.md section 10.


def node_ips(paths: Paths) -> Mapping[str, str]:
    """Name -> primary address of all nodes; empty: this node knows none. Raises: OSError."""
    rows = (line.split() for line in _ssconf_lines(paths.ssconf_file("node_primary_ips")))
    return {row[0]: row[1] for row in rows if len(row) == 2}


def offline_nodes(paths: Paths) -> frozenset[str]:
    """Raises: OSError."""
    return frozenset(_ssconf_lines(paths.ssconf_file("offline_nodes")))


def candidate_names(paths: Paths) -> Sequence[str]:
    """The master candidates, the master among them. Raises: OSError."""
    return _ssconf_lines(paths.ssconf_file("master_candidates"))


def master_name(paths: Paths) -> str:
    """The master; empty: this node knows none. Raises: OSError."""
    return next(iter(_ssconf_lines(paths.ssconf_file("master_node"))), "")


def _ssconf_lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []


# The address at which the other nodes reach this one.
#
# Source: DESIGN sections 12 and 13.


LOCAL: Final = "127.0.0.1"
# no packet is sent there; the address is for documentation (RFC 5737)
_ELSEWHERE: Final = ("192.0.2.1", 9)


def own_address(settings: Settings) -> str:
    """That of the settings; else of this node's name; else the one from which it would call others; else `LOCAL`."""
    if settings.noded.address or not settings.cluster.has_nodes:
        return settings.noded.address or LOCAL
    found = _address_of(settings.cluster.own_name) or _calling_address()
    return found if found and not is_local(found) else LOCAL


def is_local(address: str) -> bool:
    """Whether only this machine reaches it. Raises: ValueError: it is no address."""
    return ipaddress.ip_address(address).is_loopback


def _address_of(name: str) -> str | None:
    try:
        found = [str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except OSError:
        return None
    # addresses of one link say which in a way of their own
    return next((address for address in found if "%" not in address and not is_local(address)), None)


def _calling_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return None
        return str(probe.getsockname()[0])
