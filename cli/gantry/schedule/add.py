"""`gantry schedule add`: add a schedule."""

import time
from collections.abc import Sequence
from typing import Unpack

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask, check_words
from cli.gantry.schedule.jobs import CommandWish, JobOptions, job_options, read_job
from cli.gantry.schedule.shown import ahead, explained, instant, view_json
from cli.gantry.schedule.wishing import times_options
from cli.screen import remark, say, say_json
from common.errors import InvalidRequest
from common.schedules.schedule import Missed, Overlap
from common.schedules.times import offset_of
from protocol.luxi.schedules import AddSchedule, ScheduleWish


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
    cron: str | None,
    every_s: float | None,
    zone: str | None,
    overlap: Overlap | None,
    missed: Missed | None,
    deadline_s: float | None,
    spread_s: float | None,
    **command: Unpack[JobOptions],
) -> int:
    """Add the schedule NAME: COMMAND, or the job of --plan, is submitted as you, again and again.

    Times by the words of cron are those of --zone: on the night when clocks are set forward, a time that is skipped
    comes when the gap ends; when they are set back, a time that comes twice counts once. Words with * in minute or
    hour, and --every, go by real time. Each job has the schedule's name, and the label schedule=NAME.
    """
    check_words(cron, every_s, needs_one=True)
    job = read_job(CommandWish(words=words, **command))
    if job is None:
        raise InvalidRequest("a schedule needs a command after --, or --plan FILE")
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
