"""`gantry schedule pause`."""

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.names import SCHEDULE
from cli.gantry.schedule.shown import view_json
from cli.screen import remark, say_json
from protocol.luxi.schedules import PauseSchedule


@click.command("pause", cls=Command, examples=("gantry schedule pause nightly",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=SCHEDULE)
def pause(names: tuple[str, ...]) -> int:
    """Let schedules rest: they have no runs until they are resumed."""
    found = []
    for name in dict.fromkeys(names):
        found.append(ask(PauseSchedule(name, is_paused=True)))
        # at once: the next one may be refused
        if not wants_json():
            remark(f"schedule '{name}' is paused")
    if wants_json():
        say_json([view_json(view) for view in found])
    return DONE
