"""`gantry user`: the users who may call over HTTP; each verb is a module of the folder `access/users`."""

from typing import Final

from cli.commands import Group, Verb

VERBS: Final = {
    "add": Verb("cli.gantry.access.users.add:add", "Name a user, and ask for the password."),
    "list": Verb("cli.gantry.access.users.list:list_users", "List the users and their rights."),
    "modify": Verb("cli.gantry.access.users.modify:modify", "Change the rights of a user."),
    "password": Verb("cli.gantry.access.users.password:password", "Give a user another password."),
    "remove": Verb("cli.gantry.access.users.remove:remove", "Remove users; they can call no more at once."),
}

user = Group(
    "user",
    VERBS,
    help="People who call over HTTP with a password. Their roles are read, submit, operate and admin.",
    examples=(
        "gantry user add jane --role operate --unix-user jane",
        "gantry user modify jane --role submit --right jobs.cancel",
        "gantry user list",
    ),
)
