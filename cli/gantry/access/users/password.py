"""`gantry user password`: give a user another password."""

from pathlib import Path

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.access.spreading import spread
from cli.gantry.access.users.typed import read_new_password
from cli.screen import complain, say, say_json
from common.errors import NotFound
from common.webaccess.passwords import hashed
from common.webaccess.usersfile import UsersFile


@click.command(
    "password",
    cls=Command,
    examples=("gantry user password jane", "gantry user password jane --password-file - < secret"),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help="The password is the first line of this file; - is the input.",
)
def password(name: str, password_file: Path | None) -> int:
    """Give a user another password, which is asked for, and stored as a salted hash; the old one is no good then."""
    settings = installation()
    users = UsersFile(settings.paths)
    try:
        users.check_there(name)
        users.set_password(name, str(hashed(read_new_password(password_file))))
    except NotFound as error:
        complain(error.message)
        return FAILED
    if wants_json():
        say_json({"name": name})
    else:
        say(f"user '{name}' has another password now")
    spread(settings)
    return DONE
