"""`gnt-job autoarchive`: archive the jobs that ended long ago.

Source: cli.md 2, "autoarchive"; luxid.md 1.5, 2.6.
"""

from typing import Final

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.durations import DURATION
from cli.exitcodes import DONE
from cli.screen import say, say_json
from protocol.luxi.jobs import AutoArchiveJobs

# seconds that luxid may take; it must reply before the client gives up
_TIMEOUT_S: Final = 89


@click.command("autoarchive", cls=Command, examples=("gnt-job autoarchive 7d", "gnt-job autoarchive all"))
@click.argument("age", metavar="AGE|all")
def autoarchive(age: str) -> int:
    """Archive the jobs that ended more than AGE ago: 600, 30m, 12h, 7d, 2w; or all ended jobs."""
    seconds = -1 if age == "all" else int(DURATION.convert(age, None, click.get_current_context()))
    answer = ask_luxid(AutoArchiveJobs(seconds, _TIMEOUT_S))
    if wants_json():
        say_json(answer)
    else:
        say(f"Archived {answer.archived_count} jobs, {answer.unchecked_count} unchecked left")
    return DONE
