"""`gantry user modify`: change the rights of a user."""

from collections.abc import Sequence

import attrs
import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.access.spreading import spread
from cli.gantry.access.users.shown import user_json
from cli.gantry.access.users.typed import check_unix_user
from cli.screen import complain, say, say_json
from common.errors import NotFound
from common.webaccess.grants import ROLES, check_words, with_grants
from common.webaccess.usersfile import UsersFile
from common.webaccess.userstext import User


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gantry user modify jane --role submit",
        "gantry user modify jane --right jobs.cancel --no-right jobs.archive",
        "gantry user modify jane --no-unix-user",
    ),
)
@click.argument("name", metavar="NAME")
@click.option("--role", type=click.Choice(list(ROLES)), help="The role from now on, in place of another one.")
@click.option("--right", "rights", metavar="RIGHT", multiple=True, help="One more single right, such as jobs.cancel.")
@click.option("--no-right", "lost", metavar="RIGHT", multiple=True, help="A role, right or option to take away.")
@click.option("--unix-user", metavar="LOGIN", help="Whose the jobs are from now on.")
@click.option("--no-unix-user", is_flag=True, help="The user can run no commands from now on.")
def modify(
    name: str, role: str | None, rights: Sequence[str], lost: Sequence[str], unix_user: str | None, no_unix_user: bool
) -> int:
    """Change the rights of a user, from the next request on; the password stays."""
    settings = installation()
    if unix_user is not None and no_unix_user:
        raise click.UsageError("--unix-user and --no-unix-user exclude each other")
    if not (role or rights or lost or unix_user or no_unix_user):
        raise click.UsageError("nothing to change; name a role, a right or a Unix user")
    if rights:
        check_words(rights)
    if unix_user is not None:
        check_unix_user(unix_user, settings.paths)
    login = "" if no_unix_user else unix_user

    def change(user: User) -> User:
        words = with_grants(user.options, role=role, add=rights, remove=lost, unix_user=login)
        return attrs.evolve(user, options=words)

    try:
        changed = UsersFile(settings.paths).modify(name, change)
    except NotFound as error:
        complain(error.message)
        return FAILED
    if wants_json():
        say_json(user_json(changed))
    else:
        say(f"user '{name}' has other rights now")
    spread(settings)
    return DONE
