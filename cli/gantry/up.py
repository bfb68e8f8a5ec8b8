"""`gantry up`: start the daemons of an installation, and keep them running."""

import os
import signal
import subprocess
import sys
from typing import Final, NoReturn

import click

from cli.clusterstate.etcd import check_etcd_named
from cli.commands import MachineCommand
from cli.context import command_line, effective_root, installation, wants_json
from cli.exitcodes import DONE, FAILED, NOT_REACHED
from cli.screen import remark, say
from common.daemons import MASTER_DAEMONS, SUPERVISOR_MODULE, WARNING, Feature, NodeKind, start_order
from common.errors import Conflict, Unavailable
from common.installation import take_up
from common.nodes.nodeplace import daemons_here, own_address, place_of
from common.paths import Paths
from common.settings import Settings
from common.system.log import open_log
from common.system.processes import python_command, python_environment
from common.system.running import find_daemon, find_supervisor

_CLUSTER: Final = "gantry"


@click.command(
    "up",
    cls=MachineCommand,
    examples=("gantry --root ~/try up", "gantry --root ~/try up --detach", "GANTRY_ROOT=~/try gantry up"),
)
@click.option("-d", "--detach", is_flag=True, help="Return when all daemons are ready; they run on in the background.")
@click.option("--no-voting", is_flag=True, help="Be the master without asking the other nodes, which are gone.")
@click.option("--yes-do-it", is_flag=True, help="Confirms --no-voting: nothing else stops two masters at a time.")
def up(detach: bool, no_voting: bool, yes_do_it: bool) -> int:
    """Start wconfd, the fork server and luxid, and keep them running.

    An empty root becomes a cluster of one node first. In the foreground Ctrl-C stops the
    daemons; jobs that run go on. With more than one machine the node daemon is started too, and
    on nodes that are not the master only that one. With a lease in etcd keeperd is started, too, which
    starts the others when this node has become the master. If HTTP is enabled and cannot start, all else
    runs without it; the exit code of --detach is then 3.
    """
    settings = installation()
    paths = settings.paths
    take_up(settings)
    if no_voting:
        _skip_vote(settings, is_confirmed=yes_do_it)
    if (supervisor := find_supervisor(paths)) is not None:
        tell(f"already up with pid {supervisor.pid}; '{command_line('gantry', 'status')}' tells more")
        return _tell_status(settings) if wants_json() else DONE
    _refuse_others(paths)
    check_etcd_named(settings)
    _make_cluster(settings)
    if not detach:
        _up_here()
    code = _up_detached(paths, _awaited(settings))
    if settings.cluster.has_lease and code != FAILED:
        tell(f"mastership  decided in etcd; see: {command_line('gantry', 'cluster')}")
    return _tell_status(settings) if code != FAILED and wants_json() else code


def _skip_vote(settings: Settings, *, is_confirmed: bool) -> None:
    if settings.cluster.has_lease:
        raise Conflict(
            "under a lease no node is asked for its vote; to make this node the master: "
            f"gantry cluster takeover --i-accept-loss {settings.cluster.own_name}"
        )
    if not is_confirmed:
        raise click.UsageError("without a vote two nodes may be masters at a time; if you are sure, add --yes-do-it")
    if settings.cluster.has_nodes:
        from common.nodes.mastership import allow_no_voting

        allow_no_voting(settings)


def _awaited(settings: Settings) -> int:
    """The number of daemons that are started at once; under a lease keeperd starts those of the master, perhaps."""
    here = daemons_here(settings)
    return sum(not settings.cluster.has_lease or daemon.name not in MASTER_DAEMONS for daemon in here)


def _tell_status(settings: Settings) -> int:
    # imported late: without JSON no table is printed here
    from cli.gantry.status import tell_status

    return tell_status(settings)


def _refuse_others(paths: Paths) -> None:
    for daemon in start_order(features=list(Feature)):
        if (running := find_daemon(paths, daemon.name)) is not None:
            raise Conflict(
                f"{daemon.name} runs already with pid {running.pid}, and no supervisor keeps it; "
                f"stop it with: {command_line('gantry', 'down')}"
            )


def _make_cluster(settings: Settings) -> None:
    paths, node = settings.paths, settings.cluster.own_name
    if paths.config_data.exists() or paths.server_pem.exists():
        if settings.cluster.has_nodes:
            from common.nodes.certificates import make_missing

            make_missing(paths, node)
            _make_key(settings)
        return
    _refuse_lost_configuration(paths)
    if settings.cluster.has_lease:
        from cli.clusterstate.etcd import check_etcd_free

        check_etcd_free(settings)
    # imported late: it is needed once in the life of an installation
    from common.clusterinit import create_cluster

    has_nodes, has_web = settings.cluster.has_nodes, settings.rapid.enabled
    create_cluster(
        paths,
        _CLUSTER,
        node,
        primary_ip=own_address(settings),
        max_running_jobs=settings.luxid.max_running_jobs,
        has_nodes=has_nodes,
        has_web=has_web,
    )
    tell(f"cluster     made   '{_CLUSTER}' with the node '{node}' in {paths.data}")


def _refuse_lost_configuration(paths: Paths) -> None:
    """A folder that has had jobs had a configuration, too: a new one would have none of its filters and users."""
    try:
        had_jobs = paths.serial_file.read_text().strip() != "0"
    except FileNotFoundError:
        had_jobs = any(paths.queue.glob("job-*"))
    if had_jobs:
        raise Conflict(
            f"'{paths.config_data}' is missing, though there have been jobs here: bring it back from a backup, or make "
            f"a new configuration for them with: {command_line('gnt-cluster', 'init')}"
        )


def _make_key(settings: Settings) -> None:
    if settings.paths.hmac_key.exists() or place_of(settings) is not NodeKind.MASTER:
        return
    # imported late: only clusters of earlier releases have none
    from common.clusterinit import make_key

    make_key(settings.paths)
    tell("key         made   for confd; send it to the other nodes with: gnt-cluster redist-conf")


def _up_here() -> NoReturn:
    """Become the supervisor, which takes over the terminal and its signals."""
    sys.stdout.flush()
    if wants_json():
        # progress goes to standard error
        os.dup2(sys.stderr.fileno(), 1)
    # blocked until the supervisor can stop the daemons in order
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    os.execve(sys.executable, _supervisor(), python_environment())


def _supervisor(*words: str) -> list[str]:
    root = effective_root()
    place = () if root is None else ("--root", str(root))
    return python_command(SUPERVISOR_MODULE, *place, *words)


def tell(text: str) -> None:
    """Tell a step of the way."""
    if wants_json():
        # progress goes to standard error; the result comes last
        remark(text)
        return
    say(text)
    sys.stdout.flush()


def start_supervisor(paths: Paths, report: int) -> subprocess.Popen[bytes]:
    """Start a supervisor in the background. Args: report: descriptor for what it tells until all daemons are ready."""
    with os.fdopen(open_log(paths.supervisor_log), "ab") as log:
        return subprocess.Popen(
            _supervisor("--report", str(report)),
            env=python_environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(report,),
            start_new_session=True,
        )


def _up_detached(paths: Paths, daemons: int) -> int:
    reader, writer = os.pipe()
    with os.fdopen(reader) as report:
        supervisor = start_supervisor(paths, writer)
        os.close(writer)
        lines = [_relay(line.rstrip("\n")) for line in report]
    if any(line.startswith("error: ") for line in lines):
        supervisor.wait()
        return FAILED
    if len(lines) < daemons:
        code = supervisor.wait()
        raise Unavailable(f"the supervisor ended with {code}; its log is '{paths.supervisor_log}'")
    # the supervisor runs on: do not wait for it
    supervisor.returncode = 0
    return NOT_REACHED if any(line.startswith(WARNING) for line in lines) else DONE


def _relay(line: str) -> str:
    if line.startswith(("error: ", WARNING, "  ")):
        remark(line)
    else:
        tell(line)
    return line
