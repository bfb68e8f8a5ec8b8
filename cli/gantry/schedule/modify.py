"""`gantry schedule modify`: change a schedule."""

import time
from collections.abc import Sequence
from typing import Unpack

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask, check_words
from cli.gantry.schedule.jobs import CommandWish, JobOptions, job_options, read_job
from cli.gantry.schedule.names import SCHEDULE
from cli.gantry.schedule.shown import info_lines, view_json
from cli.gantry.schedule.wishing import times_options
from cli.screen import say, say_json
from common.schedules.schedule import Missed, Overlap
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
    cron: str | None,
    every_s: float | None,
    zone: str | None,
    overlap: Overlap | None,
    missed: Missed | None,
    deadline_s: float | None,
    spread_s: float | None,
    **command: Unpack[JobOptions],
) -> int:
    """Change what is given of the schedule NAME. Runs that its old times have missed are not made up for.

    A new COMMAND, or --plan, replaces the job; options of the command count only together with it.
    """
    check_words(cron, every_s, needs_one=False)
    job = read_job(CommandWish(words=words, **command))
    if job is None and any(command.values()):
        raise click.UsageError("options of the command count only together with it: give the command again, after --")
    wish = ScheduleWish(
        name=name,
        cron=cron,
        zone=zone,
        every_s=every_s,
        job=job,
        overlap=overlap,
        missed=missed,
        deadline_s=deadline_s,
        spread_s=spread_s,
    )
    view = ask(ChangeSchedule(wish))
    if wants_json():
        say_json(view_json(view))
    else:
        for line in info_lines(view, time.time()):
            say(line)
    return DONE
