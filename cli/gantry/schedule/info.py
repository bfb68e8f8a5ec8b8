"""`gantry schedule info`: schedules whole."""

import time

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import views
from cli.gantry.schedule.names import SCHEDULE
from cli.gantry.schedule.shown import info_lines, view_json
from cli.screen import say, say_json


@click.command("info", cls=Command, examples=("gantry schedule info nightly", "gantry schedule info --next 10 nightly"))
@click.option("--next", "count", type=click.IntRange(0, 100), default=3, help="How many next runs (3).")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=SCHEDULE)
def info(names: tuple[str, ...], count: int) -> int:
    """Show schedules whole: their words explained, the next runs in their zone, and the last ones."""
    found = views(names, count)
    if wants_json():
        say_json([view_json(view) for view in found])
        return DONE
    for view in found:
        for line in info_lines(view, time.time()):
            say(line)
    return DONE
