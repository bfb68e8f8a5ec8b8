"""The place of this node in its cluster, by its files of ssconf, and the daemons that run here.

Theory. The master writes ssconf on all nodes, so a node knows who was the master when it last heard of one. It is not
the master if it has heard of a newer epoch than its own. An old master that comes back may have heard nothing and
believe that it still is: its daemons then ask the other nodes. On one machine there is nothing to ask.

Source: DESIGN section 12; masterfailover.md 1.
"""

from pathlib import Path

from common.daemons import Daemon, Place, start_order
from common.nodes.epochs import newer_master, read_seen
from common.nodes.mastershipnotes import read_not_master
from common.settings import Settings


def place_of(settings: Settings) -> Place:
    """Raises: OSError: a file of ssconf cannot be read. DamagedFile: the epoch."""
    paths = settings.paths
    if not settings.cluster.has_nodes:
        return Place.MASTER
    masters = _lines(paths.ssconf_file("master_node"))
    if masters is None:
        # a node that has not heard of a master: a cluster to be made, or a node to be joined
        return Place.ALL if paths.server_pem.exists() and not paths.config_data.exists() else Place.MASTER
    if settings.cluster.own_name in masters and read_seen(paths.epoch_file).is_of(settings.cluster.own_name):
        return Place.MASTER
    candidates = _lines(paths.ssconf_file("master_candidates")) or ()
    return Place.CANDIDATES if settings.cluster.own_name in candidates else Place.ALL


def daemons_here(settings: Settings) -> tuple[Daemon, ...]:
    """The daemons of this node, in the order of their start. Raises: as `place_of`."""
    return start_order(place_of(settings), settings.features)


def why_not_master(settings: Settings) -> str | None:
    """Why the daemons of the master do not run here, for users; None: they should, as far as this node knows.

    Raises: as `place_of`.
    """
    if not settings.cluster.has_nodes:
        return None
    if place_of(settings) is Place.MASTER:
        return read_not_master(settings.paths)
    masters = _lines(settings.paths.ssconf_file("master_node")) or ()
    if settings.cluster.own_name in masters:
        return f"this node is not the master; {newer_master(read_seen(settings.paths.epoch_file))}"
    return f"this node is not the master; {masters[0]} is" if masters else "this node knows no master"


def _lines(path: Path) -> list[str] | None:
    """The lines of a file; None: there is none."""
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return None
