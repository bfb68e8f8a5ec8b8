"""Who holds the mastership, as the keeperd of this node knows it, for commands that tell it beside other things.

Source: DESIGN section 14.
"""

from typing import Final

from cli.context import paths
from common.errors import GantryError
from common.lease.deadline import FullnessReader
from common.lease.records import Fullness
from common.words.times import duration
from protocol.blocking import BlockingClient
from protocol.keeperd import ClusterView, ShowCluster

_PATIENCE_S: Final = 10.0


def known_mastership(*, timeout_s: float = _PATIENCE_S) -> ClusterView | None:
    """What keeperd knows; None: there is none here, or it does not tell this user in time."""
    try:
        with BlockingClient(paths().keeperd_socket, connect_timeout_s=0, daemon="keeperd") as client:
            return client.call(ShowCluster(), timeout_s=timeout_s)
    except (GantryError, OSError):
        return None


def mastership_line(view: ClusterView) -> str:
    """One line for `gantry status`."""
    here = f"keeperd here: {view.state}"
    if not view.master:
        return f"mastership: nobody has it, last epoch {view.epoch}; {here}; see 'gantry cluster'"
    if view.master != view.asked:
        return f"mastership: {view.master} has it, epoch {view.epoch}; {here}"
    valid = "" if view.valid_s is None else f", valid for {duration(view.valid_s)} without a renewal"
    return f"mastership: this node has it, epoch {view.epoch}{valid}; {here}"


def known_fullness() -> Fullness:
    """How full etcd is, as the keeperd here has found as the master; FINE, if only others may know."""
    try:
        return FullnessReader(paths().fullness_file).level
    except OSError:
        return Fullness.FINE


def etcd_line(view: ClusterView, level: Fullness) -> str:
    """One line for `gantry status`; empty: etcd is well. Args: level: as the keeperd here has found."""
    if view.etcd_heard_s is None:
        return "etcd: has never replied to this node; see 'gantry cluster'"
    if view.etcd_heard_s > view.ttl_s:
        return f"etcd: silent for {duration(view.etcd_heard_s)}, no change is acknowledged; see 'gantry cluster'"
    if level is Fullness.FULL or "NOSPACE" in view.alarms:
        return "etcd: full, no change is acknowledged; see 'gantry cluster'"
    if level is Fullness.RESERVED:
        return "etcd: nearly full, only jobs that are queued already are started and ended; see 'gantry cluster'"
    return ""


def mastership_json(view: ClusterView) -> dict[str, object]:
    return {"master": view.master, "epoch": view.epoch, "state": view.state, "valid_s": view.valid_s}
