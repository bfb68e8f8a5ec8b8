"""`gantry up`: start the daemons of an installation, and keep them running."""

import os
import socket
import subprocess
import sys
from typing import Final

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, effective_root, installation, up_command, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.daemonprocess import StopAsked, python_environment
from cli.gantry.pids import find_daemon, find_supervisor
from cli.gantry.supervisor import Supervisor
from cli.query import query_jobs
from cli.screen import remark, say
from common.daemons import start_order
from common.errors import Conflict, GantryError, Unavailable
from common.installation import take_up
from common.paths import Paths
from common.system.log import open_log, set_up_logging

_CLUSTER: Final = "gantry"


@click.command(
    "up",
    cls=Command,
    examples=("gantry --root ~/try up", "gantry --root ~/try up --detach", "GANTRY_ROOT=~/try gantry up"),
)
@click.option("-d", "--detach", is_flag=True, help="Return when all daemons are ready; they run on in the background.")
def up(detach: bool) -> int:
    """Start wconfd, the fork server and luxid, and keep them running.

    An empty root becomes a cluster of one node first. In the foreground Ctrl-C stops the
    daemons; jobs that run go on.
    """
    settings = installation()
    paths = settings.paths
    take_up(settings)
    if (supervisor := find_supervisor(paths)) is not None:
        _tell(f"already up with pid {supervisor.pid}; '{command_line('gantry', 'status')}' tells more")
        return _tell_status(paths) if wants_json() else DONE
    _refuse_others(paths)
    _make_cluster(paths)
    if not detach:
        return _up_here(paths)
    code = _up_detached(paths)
    return _tell_status(paths) if code == DONE and wants_json() else code


def _tell_status(paths: Paths) -> int:
    # imported late: the tables are not for people here
    from cli.gantry.status import tell_status

    return tell_status(paths)


def _refuse_others(paths: Paths) -> None:
    for daemon in start_order():
        if (running := find_daemon(paths, daemon.name)) is not None:
            raise Conflict(
                f"{daemon.name} runs already with pid {running.pid}, and no supervisor keeps it; "
                f"stop it with: {command_line('gantry', 'down')}"
            )


def _make_cluster(paths: Paths) -> None:
    if paths.config_data.exists():
        return
    # imported late, as it is needed once in the life of an installation
    from common.clusterinit import create_cluster

    node = socket.gethostname()
    create_cluster(paths, _CLUSTER, node)
    _tell(f"cluster     made   '{_CLUSTER}' with the node '{node}' in {paths.data}")


def _up_here(paths: Paths) -> int:
    set_up_logging("supervisor", path=paths.supervisor_log)
    try:
        with Supervisor(paths, effective_root(), _tell) as supervisor:
            supervisor.start_all()
            _tell("up; Ctrl-C stops the daemons")
            supervisor.keep_running()
            remark(_farewell())
    except StopAsked:
        remark("stopped before all daemons were ready")
        return FAILED
    return DONE


def _tell(text: str) -> None:
    if wants_json():
        # what happens is for people; the result comes last
        remark(text)
        return
    say(text)
    sys.stdout.flush()


def _farewell() -> str:
    """What becomes of the jobs; asked while luxid still runs."""
    try:
        # does not wait: that would ask for the supervisor's pid file, and a process that closes a file loses its locks
        with open_luxid(is_patient=False) as client:
            running = len(query_jobs(client, None, ("id", "status"), ("waiting", "canceling", "running")))
    except (GantryError, OSError):
        return f"\nstopping; jobs that run go on, found again by: {up_command()}"
    if not running:
        return "\nstopping; no job runs"
    return f"\nstopping; {running} job{'s go' if running > 1 else ' goes'} on, found again by: {up_command()}"


def _up_detached(paths: Paths) -> int:
    root = effective_root()
    place = "-" if root is None else str(root)
    reader, writer = os.pipe()
    with os.fdopen(reader) as report:
        with os.fdopen(open_log(paths.supervisor_log), "ab") as log:
            supervisor = subprocess.Popen(
                [sys.executable, "-P", "-m", "cli.gantry.supervisor", place, str(writer)],
                env=python_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(writer,),
                start_new_session=True,
            )
        os.close(writer)
        lines = [_relay(line.rstrip("\n")) for line in report]
    if any(line.startswith("error: ") for line in lines):
        supervisor.wait()
        return FAILED
    if len(lines) < len(start_order()):
        code = supervisor.wait()
        raise Unavailable(f"the supervisor ended with {code}; its log is '{paths.supervisor_log}'")
    # ours no longer: it is not waited for
    supervisor.returncode = 0
    return DONE


def _relay(line: str) -> str:
    if line.startswith(("error: ", "  ")):
        remark(line)
    else:
        _tell(line)
    return line
