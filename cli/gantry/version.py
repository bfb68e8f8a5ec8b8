"""`gantry version`."""

import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say, say_json
from common.system.daemons.program import release


@click.command("version", cls=Command, examples=("gantry version",))
def version() -> int:
    """Print the version."""
    if wants_json():
        say_json(release())
    else:
        say(f"gantry {release()}")
    return DONE
