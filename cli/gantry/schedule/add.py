"""`gantry schedule add`: add a schedule."""

import time
from collections.abc import Sequence
from typing import Unpack

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.jobs import job_options
from cli.gantry.schedule.shown import ahead, explained, instant, view_json
from cli.gantry.schedule.wishing import ScheduleOptions, read_wish, times_options
from cli.screen import remark, say, say_json
from common.schedules.times import offset_of
from protocol.luxi.schedules import AddSchedule


@click.command(
    "add",
    cls=Command,
    examples=(
        "gantry schedule add nightly --cron '0 2 * * *' --zone Europe/Athens -- backup --all",
        "gantry schedule add probe --every 5m --lock node/web1:shared -- probe web1",
        "gantry schedule add tidy --cron 'H H(1-4) * * *' --overlap queue --spread 10m -- tidy-up",
        "gantry schedule add weekly --cron @weekly --plan weekly.json",
    ),
)
@times_options
@job_options
@click.argument("name")
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
def add(
    name: str,
    words: Sequence[str],
    **options: Unpack[ScheduleOptions],
) -> int:
    """Add the schedule NAME: COMMAND, or the job of --plan, is submitted as you, again and again.

    Times by the words of cron are those of --zone: on the night when clocks are set forward, a time that is skipped
    comes when the gap ends; when they are set back, a time that comes twice counts once. Words with * in minute or
    hour, and --every, go by real time. Each job has the schedule's name, and the label schedule=NAME.
    """
    wish = read_wish(name, words, options)
    if wish.cron is None and wish.every_s is None:
        raise click.UsageError(
            "a schedule needs --cron 'WORDS' or --every TIME, as in --cron '0 2 * * *' or --every 90m"
        )
    if wish.job is None:
        raise click.UsageError("a schedule needs a command after --, or --plan FILE")
    view = ask(AddSchedule(wish))
    if wants_json():
        say_json(view_json(view))
        return DONE
    say(name)
    remark(explained(view.schedule))
    now = time.time()
    for at in view.next_at:
        remark(f"next run: {instant(at, view.schedule.zone)} ({ahead(at + offset_of(view.schedule), now)})")
    return DONE
