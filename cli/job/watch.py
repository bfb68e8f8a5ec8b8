"""`gnt-job watch`: follow jobs with their log and output."""

from collections.abc import Sequence

import click

from cli.choosing.jobids import ids_argument
from cli.choosing.namedjobs import named_jobs, naming_options
from cli.commands import Command
from cli.live.outputscreen import raw_option
from cli.live.watching import watch_jobs


@click.command(
    "watch",
    cls=Command,
    examples=(
        "gnt-job watch 27491",
        "gnt-job watch 27490 27491 27492",
        "gnt-job watch --batch b5f2c8a10b4d",
    ),
)
@raw_option
@naming_options
@ids_argument(is_required=False)
def watch(job_ids: Sequence[int], where: str | None, batches: Sequence[str], is_raw: bool) -> int:
    """Follow jobs until they have ended; the exit code is 0 if all succeeded.

    Jobs of several nodes have a line each. Ctrl-C stops watching, and the jobs go on.
    """
    return watch_jobs(named_jobs(job_ids, where, batches), is_raw=is_raw)
