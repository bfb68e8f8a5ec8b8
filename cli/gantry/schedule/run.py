"""`gantry schedule run`: submit a schedule's job now."""

import os

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.names import SCHEDULE
from cli.screen import say, say_json
from protocol.luxi.schedules import RunSchedule


@click.command(
    "run", cls=Command, examples=("gantry schedule run nightly", "gnt-job watch $(gantry schedule run nightly)")
)
@click.argument("name", type=SCHEDULE)
def run_now(name: str) -> int:
    """Submit the job of the schedule NAME now, and print its id; the schedule's own times stay as they are."""
    job_id = ask(RunSchedule(name, os.urandom(16).hex()))
    if wants_json():
        say_json(job_id)
    else:
        say(str(job_id))
    return DONE
