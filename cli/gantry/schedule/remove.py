"""`gantry schedule remove`: remove schedules."""

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.names import SCHEDULE
from cli.screen import complain, remark, say_json
from protocol.luxi.schedules import RemoveScheduleOf


@click.command("remove", cls=Command, examples=("gantry schedule remove nightly",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=SCHEDULE)
def remove(names: tuple[str, ...]) -> int:
    """Remove schedules; jobs of their runs stay, also those that are still queued."""
    gone = {name: ask(RemoveScheduleOf(name)) for name in dict.fromkeys(names)}
    if wants_json():
        say_json(gone)
        return DONE if all(gone.values()) else FAILED
    for name, is_gone in gone.items():
        if is_gone:
            remark(f"schedule '{name}' is removed")
        else:
            complain(f"there is no schedule '{name}'; 'gantry schedule list' shows them")
    return DONE if all(gone.values()) else FAILED
