"""`gnt-cluster queue`: close or open the queue to new jobs.

Source: cli.md 5.
"""

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.run import DONE
from cli.screen import say, say_json
from protocol.luxi import QueryConfigValues, SetDrainFlag


@click.command("queue", cls=Command, examples=("gnt-cluster queue drain", "gnt-cluster queue info"))
@click.argument("action", type=click.Choice(["drain", "undrain", "info"]))
def queue(action: str) -> int:
    """Close the queue to new jobs (drain), open it (undrain), or tell whether it is closed (info)."""
    if action != "info":
        ask_luxid(SetDrainFlag(action == "drain"))
        return DONE
    is_drained = bool(ask_luxid(QueryConfigValues(("drain_flag",)))[0])
    if wants_json():
        say_json(is_drained)
    else:
        say(f"The drain flag is {'set' if is_drained else 'unset'}")
    return DONE
