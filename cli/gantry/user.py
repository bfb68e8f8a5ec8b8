"""`gantry user`: the users who may call over HTTP; their roles and passwords."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, assert_never

import attrs
import click

from cli.commands import Command, CommandGroup, CommandVerb
from cli.connection import open_luxid
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, is_interactive, remark, say_json, say_result, warn
from cli.tables import Column, Layout, render, show_lines, table_options
from common.access import Role
from common.daemons import NodeKind
from common.errors import GantryError, InvalidRequest, NotFound
from common.nodes.nodeplace import place_of
from common.paths import Paths
from common.settings import Settings
from common.webaccess.passwords import ClearText, Ha1, Scrypt, UnknownForm, hashed, read_password
from common.webaccess.rights import ROLES, Rights, check_words, with_grants
from common.webaccess.users import User, UsersFile, check_name
from protocol.luxi.jobs import SubmitJob

VERBS: Final = {
    "add": CommandVerb("cli.gantry.user:add", "Name a user, and ask for the password."),
    "list": CommandVerb("cli.gantry.user:list_users", "List the users and their rights."),
    "modify": CommandVerb("cli.gantry.user:modify", "Change the rights of a user."),
    "password": CommandVerb("cli.gantry.user:password", "Give a user another password."),
    "remove": CommandVerb("cli.gantry.user:remove", "Remove users; they can call no more at once."),
}

user = CommandGroup(
    "user",
    VERBS,
    help="People who call over HTTP with a password. Their roles are read, submit, operate and admin.",
    examples=(
        "gantry user add jane --role operate --unix-user jane",
        "gantry user modify jane --role submit --right jobs.cancel",
        "gantry user list",
    ),
)


# After a change of users or tokens: the other nodes get it, so that a failover brings nothing back.
#
# Source: noded.md 8; `OP_CLUSTER_REDIST_CONF`.


def spread(settings: Settings) -> None:
    """Send the files to the other nodes, by a job, and tell what else there is to do."""
    if not settings.rapid.enabled:
        remark("nobody can call yet: set 'enabled = true' in '[rapid]' of the settings, and start the daemons again")
    if not settings.cluster.has_nodes:
        return
    if place_of(settings) is not NodeKind.MASTER:
        warn("this node is not the master, whose files replace these; make the change there ('gnt-cluster getmaster')")
        return
    try:
        with open_luxid(is_patient=False) as client:
            job_id = client.call(SubmitJob(({"OP_ID": "OP_CLUSTER_REDIST_CONF"},)))
    except GantryError as error:
        warn(f"the other nodes do not have it yet ({error.message}); send it later with: gnt-cluster redist-conf")
    else:
        remark(f"job {job_id} sends it to the other nodes")


def change_each(names: Sequence[str], change: Callable[[str], str], words: str, settings: Settings) -> int:
    """Change each of what the names name, tell of it, and spread the change; return the exit code.

    Args: change: returns the id of what was changed; raises NotFound, which is told. words: with {} for that id.
    """
    done = []
    for name in names:
        try:
            done.append(change(name))
        except NotFound as error:
            complain(error.message)
    say_result(done, *map(words.format, done))
    if done:
        spread(settings)
    return DONE if len(done) == len(names) else FAILED


# What is typed to name a user: passwords and logins.


_STANDARD_INPUT: Final = Path("-")
_MOST_BYTES: Final = 1024


def read_new_password(file: Path | None) -> str:
    """A new password: the first line of a file, else asked for twice on the terminal, without echo.

    Raises: InvalidRequest: it is empty, too long, or no text; or there is no terminal. OSError: of the file.
    """
    password = _ask() if file is None else _read(file)
    if not password or len(password.encode()) > _MOST_BYTES:
        raise InvalidRequest(f"the password is empty, or has more than {_MOST_BYTES} bytes; choose another one")
    return password


def _read(file: Path) -> str:
    if file != _STANDARD_INPUT:
        with file.open("rb") as opened:
            line = opened.readline(2 * _MOST_BYTES)
    elif sys.stdin is None:
        raise InvalidRequest("standard input is closed, and the password was to come from there")
    else:
        line = sys.stdin.buffer.readline(2 * _MOST_BYTES)
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        raise InvalidRequest("the password is not text in UTF-8; choose another one") from None


def _ask() -> str:
    # imported late: most passwords of programs come from files
    from getpass import getpass

    if not is_interactive():
        raise InvalidRequest(
            "there is no terminal to ask for the password; use --password-file FILE, or - for the input"
        )
    while True:
        first = getpass("new password: ", sys.stderr)
        if first == getpass("once more: ", sys.stderr):
            return first
        complain("the two are not the same; type them again")


def check_unix_user(login: str, paths: Paths) -> None:
    """Make sure that this machine knows the user, and warn where commands cannot run as him, or do so with all rights.

    Raises: InvalidRequest: it does not. Unavailable: users cannot be read now. OSError.
    """
    # imported late: few verbs need it
    from common.system.accounts import user_named

    if (found := user_named(login)) is None:
        raise InvalidRequest(f"there is no user '{login}' on this machine; make it first, on all nodes")
    uid = found.pw_uid
    if uid == 0:
        warn(f"commands will run as '{login}', who may do everything on the machine")
    elif (daemons := paths.data.stat().st_uid) not in (0, uid) and not paths.launcher_socket.exists():
        # as luxid refuses them
        warn(
            f"commands as '{login}' are refused while the daemons run as user {daemons}, who cannot become another one"
        )


# Users as they are shown, to people and as JSON; never with their passwords.


def user_json(user: User) -> dict[str, object]:
    grants = user.grants
    return {
        "name": user.name,
        "role": role_word(grants.rights),
        "rights": single_rights(grants.rights),
        "unix_user": grants.unix_user,
        "password": password_form(user),
        "unknown_options": list(grants.unknown),
    }


def role_word(rights: Rights) -> str | None:
    """None: no role."""
    return None if rights.role is Role.NONE else rights.role.word


def single_rights(rights: Rights) -> Sequence[str]:
    return sorted(right.value for right in rights.single)


def password_form(user: User) -> str:
    """How the password is stored."""
    form = read_password(user.password)
    match form:
        case ClearText():
            return "clear text"
        case Ha1():
            return "digest"
        case Scrypt():
            return "hash"
        case UnknownForm(scheme):
            return f"unknown: {scheme}"
        case _:
            assert_never(form)


# `gantry user add`: name a user who may call over HTTP.


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
@click.option("--unix-user", metavar="LOGIN", help="Unix user of the jobs; without one the user can run no commands.")
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
    say_result(user_json(user), f"user '{name}' is added")
    spread(settings)
    return DONE


# `gantry user list`: the users who may call over HTTP.


_COLUMNS = (Column("NAME"), Column("ROLE"), Column("RIGHTS"), Column("UNIX USER"), Column("PASSWORD"))


@click.command("list", cls=Command, examples=("gantry user list", "gantry user list --output json"))
@table_options
def list_users(layout: Layout) -> int:
    """List the users, in the order of their file, and how their passwords are stored."""
    users = UsersFile(installation().paths).users()
    if wants_json():
        say_json([user_json(user) for user in users.values()])
        return DONE
    show_lines(render(_COLUMNS, map(_cells, users.values()), layout))
    return DONE


def _cells(user: User) -> tuple[str, ...]:
    rights = user.grants.rights
    role, single = role_word(rights) or "", ",".join(single_rights(rights))
    return user.name, role, single, user.grants.unix_user or "", password_form(user)


# `gantry user modify`: change the rights of a user.


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
@click.option("--unix-user", metavar="LOGIN", help="New Unix user of the jobs.")
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
    say_result(user_json(changed), f"user '{name}' has its new rights")
    spread(settings)
    return DONE


# `gantry user password`: give a user another password.


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
    say_result({"name": name}, f"user '{name}' has its new password")
    spread(settings)
    return DONE


# `gantry user remove`: remove users who may call over HTTP.


@click.command("remove", cls=Command, examples=("gantry user remove jane",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def remove(names: Sequence[str]) -> int:
    """Remove these users; from the next request on they are refused. Their jobs stay."""
    settings = installation()
    users = UsersFile(settings.paths)

    def take_out(name: str) -> str:
        users.remove(name)
        return name

    return change_each(names, take_out, "user '{}' is removed", settings)
