"""`gantry user add`: name a user who may call over HTTP."""

from collections.abc import Sequence
from pathlib import Path

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.gantry.access.spreading import spread
from cli.gantry.access.users.shown import user_json
from cli.gantry.access.users.typed import check_unix_user, read_new_password
from cli.screen import say, say_json
from common.webaccess.grants import ROLES, check_words, with_grants
from common.webaccess.passwords import hashed
from common.webaccess.usersfile import UsersFile
from common.webaccess.userstext import User, check_name


@click.command(
    "add",
    cls=Command,
    examples=(
        "gantry user add jane --role operate --unix-user jane",
        "gantry user add watcher --right jobs.read --password-file - < secret",
    ),
)
@click.argument("name", metavar="NAME")
@click.option(
    "--role", type=click.Choice(list(ROLES)), help="What the user may do; each role includes those before it."
)
@click.option("--right", "rights", metavar="RIGHT", multiple=True, help="A single right, such as jobs.cancel.")
@click.option("--unix-user", metavar="LOGIN", help="Whose the jobs are; without one the user can run no commands.")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help="The password is the first line of this file; - is the input.",
)
def add(name: str, role: str | None, rights: Sequence[str], unix_user: str | None, password_file: Path | None) -> int:
    """Name a user, whose password is asked for, and stored as a salted hash."""
    settings = installation()
    check_name(name)
    words = check_words([*filter(None, [role]), *rights])
    if unix_user is not None:
        check_unix_user(unix_user, settings.paths)
    users = UsersFile(settings.paths)
    users.check_new(name)
    user = User(name, str(hashed(read_new_password(password_file))), with_grants(words, unix_user=unix_user))
    users.add(user)
    if wants_json():
        say_json(user_json(user))
    else:
        say(f"user '{name}' may call now")
    spread(settings)
    return DONE
