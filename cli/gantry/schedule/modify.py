"""`gantry schedule modify`: change a schedule."""

import time
from collections.abc import Sequence
from typing import Unpack

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.jobs import JobOptions, job_options
from cli.gantry.schedule.names import SCHEDULE
from cli.gantry.schedule.shown import info_lines, view_json
from cli.gantry.schedule.wishing import ScheduleOptions, read_wish, times_options
from cli.screen import say, say_json
from protocol.luxi.schedules import ChangeSchedule, ScheduleWish


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gantry schedule modify nightly --cron '30 3 * * *'",
        "gantry schedule modify nightly --overlap queue",
        "gantry schedule modify nightly -- backup --all --verbose",
    ),
)
@times_options
@job_options
@click.argument("name", type=SCHEDULE)
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def modify(
    name: str,
    words: Sequence[str],
    **options: Unpack[ScheduleOptions],
) -> int:
    """Change what is given of the schedule NAME. Runs that its old times have missed are not made up for.

    A new COMMAND, or --plan, replaces the job; options of the command count only together with it.
    """
    wish = read_wish(name, words, options)
    if wish.job is None and any(value for key, value in options.items() if key in JobOptions.__annotations__):
        raise click.UsageError("options of the command count only together with it: give the command again, after --")
    if wish == ScheduleWish(name=name):
        raise click.UsageError(
            "nothing to change; name a value, as in: gantry schedule modify --cron '30 3 * * *' NAME"
        )
    view = ask(ChangeSchedule(wish))
    if wants_json():
        say_json(view_json(view))
    else:
        for line in info_lines(view, time.time()):
            say(line)
    return DONE
