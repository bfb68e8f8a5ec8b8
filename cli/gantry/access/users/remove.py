"""`gantry user remove`: remove users who may call over HTTP."""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.access.spreading import spread
from cli.screen import complain, say, say_json
from common.errors import NotFound
from common.webaccess.usersfile import UsersFile


@click.command("remove", cls=Command, examples=("gantry user remove jane",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def remove(names: Sequence[str]) -> int:
    """Remove these users; from the next request on they are refused. Their jobs stay."""
    settings = installation()
    users = UsersFile(settings.paths)
    removed = []
    for name in names:
        try:
            users.remove(name)
        except NotFound as error:
            complain(error.message)
        else:
            removed.append(name)
    if wants_json():
        say_json(removed)
    else:
        for name in removed:
            say(f"user '{name}' is removed")
    if removed:
        spread(settings)
    return DONE if len(removed) == len(names) else FAILED
