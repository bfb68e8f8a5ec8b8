"""`gantry down`: stop the daemons of an installation."""

import time

import click

from cli.clusterstate.masterships import known_mastership
from cli.clusterstate.processes import end_process
from cli.commands import MachineCommand
from cli.connection import open_luxid
from cli.context import installation, up_command, use_what_can_be_read
from cli.context import paths as installation_paths
from cli.exitcodes import DONE
from cli.live.following import until_ended
from cli.options import DURATION
from cli.query import jobs_now
from cli.screen import remark, say_result, warn
from common.daemons import Feature, NodeKind, start_order
from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.nodes.nodeplace import place_of
from common.paths import Paths
from common.system.processes import going_on_words
from common.system.running import find_daemon, find_supervisor
from protocol.luxi.jobs import CancelJobs

# time for keeperd to tell who may follow
_ASK_S = 5.0
_WITH_PROCESS = ("waiting", "canceling", "running")


@click.command("down", cls=MachineCommand, examples=("gantry --root ~/try down", "gantry --root ~/try down --jobs"))
@click.option("--jobs", "kills_jobs", is_flag=True, help="Kill the running jobs first; without it they go on.")
@click.option("--timeout", type=DURATION, default=90.0, help="How long the jobs, then each daemon, may take (90s).")
def down(kills_jobs: bool, timeout: float) -> int:
    """Stop the daemons, and wait until they are gone.

    Running jobs go on. Only a master under a lease gives its mastership up, and jobs on that node itself fail:
    move it first, with 'gantry cluster switchover', and none does.
    """
    if (fault := use_what_can_be_read()) is not None:
        warn(f"{fault.message}; the daemons are stopped nevertheless, and do not start until it is fixed")
    paths = installation_paths()
    if find_supervisor(paths) is None and not _daemons(paths):
        _tell("already down", was_up=False, left=0)
        return DONE
    left = _kill_jobs(timeout) if kills_jobs else _count_jobs(paths)
    was_master = _held_lease()
    view = known_mastership(timeout_s=_ASK_S) if was_master else None
    supervisor = find_supervisor(paths)
    if supervisor is not None:
        _end("the supervisor", supervisor.pid, timeout)
    # daemons without a supervisor, or left behind by a killed one
    for name, pid in _daemons(paths):
        _end(name, pid, timeout)
    _tell("down", was_up=True, left=left)
    if was_master:
        from cli.gantry.cluster.mastership import last_words

        remark(last_words(view, left))
    elif left:
        remark(_words_for_left(left, is_killed=kills_jobs))
    if (words := going_on_words(paths.node_commands)) is not None:
        remark(f"{words}, found again by: {up_command()}")
    return DONE


def _held_lease() -> bool:
    """Whether this node is the master under a lease."""
    settings = installation()
    try:
        return settings.cluster.has_lease and place_of(settings) is NodeKind.MASTER
    except (GantryError, OSError):
        return False


def _words_for_left(left: int, *, is_killed: bool) -> str:
    if is_killed:
        are = "jobs are" if left > 1 else "job is"
        return f"{left} {are} still ending, which needs no daemon; see what became of that after: {up_command()}"
    return f"{left} job{'s go' if left > 1 else ' goes'} on, found again by: {up_command()}"


def _tell(text: str, *, was_up: bool, left: int) -> None:
    say_result({"was_up": was_up, "jobs_left": left}, text)


def _daemons(paths: Paths) -> list[tuple[str, int]]:
    found = [(daemon.name, find_daemon(paths, daemon.name)) for daemon in reversed(start_order(features=list(Feature)))]
    return [(name, running.pid) for name, running in found if running is not None]


def _end(name: str, pid: int, timeout_s: float) -> None:
    if not end_process(pid, timeout_s):
        raise Unavailable(
            f"{name} (pid {pid}) has not ended within {timeout_s:g} s; wait, or end it with: kill -9 {pid}"
        )


def _count_jobs(paths: Paths) -> int:
    if find_daemon(paths, "luxid") is None:
        return 0
    try:
        return len(jobs_now(None, ("id", "status"), _WITH_PROCESS))
    except Unavailable:
        return 0


def _kill_jobs(timeout_s: float) -> int:
    """Return how many jobs have not ended in that time; a killed job goes on ending without daemons."""
    deadline = time.monotonic() + timeout_s
    with open_luxid() as client:
        jobs = [row["id"] for row in jobs_now(None, ("id", "status"), _WITH_PROCESS)]
        client.call(CancelJobs(tuple(map(JobId, jobs)), kill=True))
    return len(until_ended(jobs, deadline)) if jobs else 0
