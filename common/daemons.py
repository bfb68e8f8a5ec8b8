"""The daemons of an installation, one row each.

All code that starts, stops, checks or tests daemons reads these rows. A new daemon is a row here, its folder under
`daemons/`, its console script `gantry-NAME` and its unit in `deploy/systemd/`. The launcher has no row: it is root's,
only systemd starts it, and it has no pid file, no log file and no settings of the installation.

Source: DESIGN sections 11 and 12.
"""

import enum
from collections.abc import Collection
from typing import Final

import attrs

from common.errors import NotFound


class NodeKind(enum.Enum):
    """The nodes that run a daemon; each kind of node also runs the daemons of the kinds after it."""

    MASTER = "master"
    CANDIDATES = "candidates"
    ALL = "all"


class Feature(enum.Enum):
    """What the settings may switch on, and some daemons are only for."""

    # more than one machine
    NODES = "nodes"
    HTTP = "http"
    # questions about the configuration
    QUESTIONS = "questions"
    # reports of nodes about themselves
    MONITORING = "monitoring"
    # a mastership that moves by itself
    LEASE = "lease"


@attrs.frozen
class Daemon:
    name: str
    # module with `main()`, run by `python -m`
    module: str
    # file names in the run folder and in the log folder
    pid_file: str
    log_file: str
    # name of its Unix socket in the folder of sockets; None: it listens elsewhere, as its settings say
    socket: str | None = None
    runs_on: NodeKind = NodeKind.MASTER
    # name of its table in gantry.toml; None: it has no settings of its own
    settings: str | None = None
    # names of the daemons that must be ready before this one is started
    started_after: tuple[str, ...] = ()
    # what it is for; None: it always runs
    feature: Feature | None = None
    # whether the others are of no use without it
    is_needed: bool = True
    # user as whom it runs in the installation of the system, where there is this user; empty: as `DAEMONS_USER`
    user: str = ""


# user of the daemons where the package has made it
DAEMONS_USER: Final = "gantry"
# the one daemon with a user of its own that calls in the names of others
GATEWAY: Final = "rapid"
# the file names are Ganeti's, where programs and logs never had the same stem
DAEMONS: Final[tuple[Daemon, ...]] = (
    Daemon(
        name="noded",
        module="daemons.noded.main",
        pid_file="ganeti-noded.pid",
        log_file="node-daemon.log",
        runs_on=NodeKind.ALL,
        settings="noded",
        feature=Feature.NODES,
    ),
    Daemon(
        name="keeperd",
        module="daemons.keeperd.main",
        pid_file="gantry-keeperd.pid",
        log_file="keeper-daemon.log",
        socket="gantry-keeperd",
        runs_on=NodeKind.CANDIDATES,
        settings="keeperd",
        # it tells the node daemons of a new master, its own first
        started_after=("noded",),
        feature=Feature.LEASE,
    ),
    Daemon(
        name="wconfd",
        module="daemons.wconfd.main",
        pid_file="ganeti-wconfd.pid",
        log_file="wconf-daemon.log",
        socket="ganeti-wconfd",
        settings="wconfd",
        # it asks the node daemons, its own too, who is the master
        started_after=("noded",),
    ),
    Daemon(
        name="forkserver",
        module="daemons.jobproc.forkserver.main",
        pid_file="gantry-forkserver.pid",
        # shared by the job processes
        log_file="jobs.log",
        socket="gantry-forkserver",
        settings="jobproc",
    ),
    Daemon(
        name="luxid",
        module="daemons.luxid.main",
        pid_file="ganeti-luxid.pid",
        log_file="luxi-daemon.log",
        socket="ganeti-query",
        settings="luxid",
        started_after=("wconfd", "forkserver"),
    ),
    Daemon(
        name="rapid",
        module="daemons.rapid.main",
        pid_file="ganeti-rapi.pid",
        log_file="rapi-daemon.log",
        socket="gantry-rapid",
        runs_on=NodeKind.CANDIDATES,
        settings="rapid",
        started_after=("luxid",),
        feature=Feature.HTTP,
        is_needed=False,
        user="gantry-rapid",
    ),
    Daemon(
        name="confd",
        module="daemons.confd.main",
        pid_file="ganeti-confd.pid",
        log_file="conf-daemon.log",
        runs_on=NodeKind.CANDIDATES,
        settings="confd",
        feature=Feature.QUESTIONS,
        is_needed=False,
        user="gantry-confd",
    ),
    Daemon(
        name="mond",
        module="daemons.mond.main",
        pid_file="ganeti-mond.pid",
        log_file="monitoring-daemon.log",
        runs_on=NodeKind.ALL,
        settings="mond",
        feature=Feature.MONITORING,
        is_needed=False,
        user="gantry-mond",
    ),
)
# names of those that only the master runs, in the order of their stop
MASTER_DAEMONS: Final = ("luxid", "forkserver", "wconfd")
# module of the program that keeps the daemons running where systemd does not
SUPERVISOR_MODULE: Final = "daemons.supervisor.main"
# what a line of the supervisor begins with that tells which daemon it goes on without
WARNING: Final = "warning: "


def daemon_named(name: str) -> Daemon:
    """Return the row of a daemon. Raises: NotFound."""
    for daemon in DAEMONS:
        if daemon.name == name:
            return daemon
    known = ", ".join(daemon.name for daemon in DAEMONS)
    raise NotFound(f"there is no daemon '{name}'; known are {known}")


def start_order(place: NodeKind = NodeKind.MASTER, features: Collection[Feature] = ()) -> tuple[Daemon, ...]:
    """Return the daemons of such a node in the order of their start: each after the daemons that it needs.

    Stop them in the opposite order.

    Args: features: those that are switched on.
    """
    kinds = list(NodeKind)
    waiting = [
        daemon
        for daemon in DAEMONS
        if kinds.index(daemon.runs_on) >= kinds.index(place) and (daemon.feature is None or daemon.feature in features)
    ]
    ordered: list[Daemon] = []
    while waiting:
        unstarted = {daemon.name for daemon in waiting}
        # fails where rows wait for each other in a ring
        chosen = next(daemon for daemon in waiting if unstarted.isdisjoint(daemon.started_after))
        waiting.remove(chosen)
        ordered.append(chosen)
    return tuple(ordered)
