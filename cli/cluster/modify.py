"""`gnt-cluster modify`: change the limits of the cluster.

Source: cli.md 5.
"""

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say_json
from protocol.luxi.queue import SetJobLimits

_COUNT = click.IntRange(min=1)


@click.command("modify", cls=Command, examples=("gnt-cluster modify --max-running-jobs 20",))
@click.option("--max-running-jobs", type=_COUNT, metavar="N", help="Jobs that may run at the same time.")
@click.option(
    "--max-tracked-jobs",
    type=_COUNT,
    metavar="N",
    help="Running jobs that a Ganeti follows by events; here all of them are.",
)
def modify(max_running_jobs: int | None, max_tracked_jobs: int | None) -> int:
    """Change limits of the cluster; they are in force at once, and also after a restart."""
    if max_running_jobs is None and max_tracked_jobs is None:
        raise click.UsageError("nothing to change; name a limit, as in: gnt-cluster modify --max-running-jobs 20")
    ask_luxid(SetJobLimits(max_running_jobs, max_tracked_jobs))
    if wants_json():
        say_json({"max_running_jobs": max_running_jobs, "max_tracked_jobs": max_tracked_jobs})
    return DONE
