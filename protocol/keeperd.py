"""The calls of keeperd's Unix socket."""

import attrs

from common.lease.records import Change, Role
from common.shapes import Lenient
from protocol.messages import Request
from protocol.metrics import DaemonMetrics


@attrs.frozen(kw_only=True)
class MemberView(Lenient):
    """One node of the cluster."""

    name: str
    role: Role
    # state of its keeperd, in its own words; empty: it is silent
    state: str
    # highest epoch that it has seen
    epoch: int
    release: str
    priority: int
    # why it may not become the master now
    reasons: tuple[str, ...] = ()
    # whether it has all copies, was away too long, or is being compared: fresh, stale, catching up, unknown
    copies: str = "unknown"
    # files of the queue, and whether the configuration, are on their way to it; None: not known
    lag_files: int | None = None
    config_behind: bool | None = None
    # seconds since it is so, by its own clock; None: not known
    since_s: float | None = None


@attrs.frozen(kw_only=True)
class EtcdMemberView(Lenient):
    name: str
    endpoint: str
    # empty: it does not reply
    version: str = ""
    is_leader: bool = False
    db_bytes: int = 0
    quota_bytes: int = 0
    failure: str = ""


@attrs.frozen(kw_only=True)
class ClusterView(Lenient):
    """The mastership and all that have a part in it, as one keeperd knows them."""

    # name of the node that was asked
    asked: str
    # state of its keeperd
    state: str
    # empty: nobody is
    master: str
    epoch: int
    # seconds
    ttl_s: float
    # seconds for which the asked node may still act as the master without a renewal; None: it is not the master
    valid_s: float | None = None
    members: tuple[MemberView, ...] = ()
    etcd: tuple[EtcdMemberView, ...] = ()
    # entries that some candidate may lack
    dirty: int | None = None
    # what etcd has raised: NOSPACE, CORRUPT
    alarms: tuple[str, ...] = ()
    # seconds since etcd was heard last; None: never
    etcd_heard_s: float | None = None
    maintenance: bool = False
    history: tuple[Change, ...] = ()
    # what is wrong, in words for an operator
    problems: tuple[str, ...] = ()


@attrs.frozen
class ShowCluster(Request[ClusterView]):
    METHOD = "gantry_show_cluster"


@attrs.frozen
class ReadKeeperdMetrics(Request[DaemonMetrics]):
    """The numbers of the mastership for graphs and alerts."""

    METHOD = "gantry_read_metrics"


@attrs.frozen
class Switchover(Request[str]):
    """Move the mastership to another healthy node; return when that one serves: its name.

    Raises: Conflict: it may not be, or nobody may; the message says why. Unavailable: it has not happened in time.
    """

    METHOD = "gantry_switchover"
    # empty: to the best one
    node: str = ""
    # whether the jobs on the master are killed; false: they are waited for
    kill: bool = False
    # seconds; 0: for ever
    limit_s: float = 0.0


@attrs.frozen
class Takeover(Request[str]):
    """Make this node the master although the old one, or copies, may be lost; return when it serves: its name."""

    METHOD = "gantry_takeover"
    node: str


@attrs.frozen
class SetMaintenance(Request[None]):
    METHOD = "gantry_maintenance"
    on: bool


@attrs.frozen
class AcceptRestoredEtcd(Request[None]):
    """Take etcd as it is after it was restored or replaced; for a keeperd in doubt."""

    METHOD = "gantry_accept_restore"


@attrs.frozen
class TestWatchdog(Request[None]):
    """Stop feeding the watchdog of this node: the machine restarts if it works."""

    METHOD = "gantry_test_watchdog"
