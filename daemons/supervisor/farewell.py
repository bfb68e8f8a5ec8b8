"""The supervisor's message when it is asked to stop: what becomes of the jobs."""

from pathlib import Path
from typing import Final

from common.errors import GantryError
from common.installation import up_command
from common.nodes.runningcommands import going_on_words
from common.paths import Paths
from protocol.blocking import BlockingClient
from protocol.luxi.queries import QueryJobs

_WITH_PROCESS: Final = ("waiting", "canceling", "running")
_PATIENCE_S: Final = 5.0


def farewell(paths: Paths, root: Path | None) -> str:
    """What goes on, and the command that finds it again. Call it while luxid still runs."""
    if _holds_lease(paths):
        return "stopping; the mastership is given up, and jobs on this node itself end"
    commands = going_on_words(paths.node_commands)
    return _jobs_words(paths, root) + (f"; {commands}" if commands else "")


def _holds_lease(paths: Paths) -> bool:
    # imported late: most installations are one machine
    from common.lease.holding import is_held

    try:
        return is_held(paths)
    except (GantryError, OSError):
        return False


def _jobs_words(paths: Paths, root: Path | None) -> str:
    try:
        with BlockingClient(paths.query_socket, connect_timeout_s=0, daemon="luxid") as luxid:
            rows = luxid.call(QueryJobs(None, ("status",)), timeout_s=_PATIENCE_S)
    except (GantryError, OSError):
        return f"stopping; jobs that run go on, found again by: {up_command(root)}"
    going_on = sum(row[0] in _WITH_PROCESS for row in rows)
    if not going_on:
        return "stopping; no job runs"
    return f"stopping; {going_on} job{'s go' if going_on > 1 else ' goes'} on, found again by: {up_command(root)}"
