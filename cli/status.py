"""`gantry status`: which daemons run, since when, and what the queue holds."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs
import click

from cli.commands import Command
from cli.connection import ask_luxid, ask_wconfd
from cli.context import paths as installation_paths
from cli.context import up_command, uses_color, wants_json
from cli.pids import DAEMONS, Running, find_daemon, find_supervisor
from cli.query import jobs_now
from cli.run import DONE, NOT_REACHED
from cli.screen import complain, say, say_json
from cli.tables import Column, Layout, render
from cli.times import clock
from common.errors import GantryError
from common.jobs import JobState
from common.paths import Paths
from protocol.dial import dial
from protocol.luxi import QueryConfigValues
from protocol.wconfd import Echo

_COLUMNS = (Column("DAEMON"), Column("STATE"), Column("PID", is_number=True), Column("SINCE"))


@attrs.frozen
class DaemonStatus:
    name: str
    running: Running | None
    # it answers calls
    is_ready: bool

    @property
    def state(self) -> str:
        return "down" if self.running is None else "ready" if self.is_ready else "starting"


@click.command("status", cls=Command, examples=("gantry --root ~/try status", "gantry status --output json | jq .jobs"))
def status() -> int:
    """Tell which daemons run and what the queue holds; the exit code is 3 if one is down."""
    paths = installation_paths()
    daemons = [_daemon_status(paths, name) for name in DAEMONS]
    is_up = all(daemon.is_ready for daemon in daemons)
    jobs = _count_jobs() if daemons[-1].is_ready else None
    drained = ask_luxid(QueryConfigValues(("drain_flag",)))[0] if daemons[-1].is_ready else None
    supervisor = find_supervisor(paths)
    if wants_json():
        say_json(_as_json(daemons, supervisor, jobs, drained))
    else:
        for line in render(_COLUMNS, [_cells(*_row(daemon)) for daemon in daemons], Layout(has_color=uses_color())):
            say(line)
        if jobs is not None:
            say(_queue_line(jobs, bool(drained)))
    if not is_up:
        names = [daemon.name for daemon in daemons if not daemon.is_ready]
        complain(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not ready; start with: {up_command()}")
    return DONE if is_up else NOT_REACHED


def _row(daemon: DaemonStatus) -> tuple[str, str, Running | None]:
    return daemon.name, daemon.state, daemon.running


def _cells(name: str, state: str, running: Running | None) -> list[str]:
    return [name, state, str(running.pid) if running else "", clock(running.since) if running else ""]


def _daemon_status(paths: Paths, name: str) -> DaemonStatus:
    running = find_daemon(paths, name)
    return DaemonStatus(name, running, running is not None and _answers(paths, name))


def _answers(paths: Paths, name: str) -> bool:
    try:
        match name:
            case "luxid":
                ask_luxid(QueryConfigValues(()))
            case "wconfd":
                ask_wconfd(Echo("status"))
            case _:
                dial(paths.forkserver_socket, name).close()
    except GantryError:
        return False
    return True


def _count_jobs() -> Mapping[str, int]:
    """How many jobs are in each state; states without jobs are left out."""
    counted = Counter(row["status"] for row in jobs_now(None, ("status",)))
    return {state.value: counted[state.value] for state in JobState if counted[state.value]}


def _queue_line(jobs: Mapping[str, int], is_drained: bool) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in jobs.items()) or "empty"
    return f"queue: {counts}{'; drained, it takes no jobs' if is_drained else ''}"


def _as_json(
    daemons: list[DaemonStatus], supervisor: Running | None, jobs: Mapping[str, int] | None, drained: Any
) -> dict[str, Any]:
    def place(running: Running | None) -> dict[str, Any]:
        return {"pid": running.pid if running else None, "since": running.since if running else None}

    return {
        "ready": all(daemon.is_ready for daemon in daemons),
        "daemons": {daemon.name: {"state": daemon.state, **place(daemon.running)} for daemon in daemons},
        "supervisor": place(supervisor),
        "jobs": jobs,
        "drained": drained,
    }
