"""`gantry user list`: the users who may call over HTTP."""

import click

from cli.commands import Command
from cli.context import installation, uses_color, wants_json
from cli.exitcodes import DONE
from cli.gantry.access.users.shown import password_form, role_word, single_rights, user_json
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import say_json
from cli.tables import Column, Layout, render
from common.webaccess.usersfile import UsersFile
from common.webaccess.userstext import User

_COLUMNS = (Column("NAME"), Column("ROLE"), Column("RIGHTS"), Column("UNIX USER"), Column("PASSWORD"))


@click.command("list", cls=Command, examples=("gantry user list", "gantry user list --output json"))
@table_options
def list_users(no_headers: bool, separator: str | None) -> int:
    """List the users, in the order of their file, and how their passwords are stored."""
    users = UsersFile(installation().paths).users()
    if wants_json():
        say_json([user_json(user) for user in users.values()])
        return DONE
    layout = Layout(not no_headers, separator, has_color=uses_color())
    show_lines(render(_COLUMNS, map(_cells, users.values()), layout))
    return DONE


def _cells(user: User) -> tuple[str, ...]:
    rights = user.grants.rights
    role, single = role_word(rights) or "", ",".join(single_rights(rights))
    return user.name, role, single, user.grants.unix_user or "", password_form(user)
