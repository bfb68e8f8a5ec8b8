"""`gantry user`: the users who may call over HTTP; each verb is a module of the folder `users`."""

from typing import Final

from cli.commands import Group, Verb

VERBS: Final = {
    "add": Verb("cli.gantry.users.add:add", "Name a user, and ask for the password."),
    "list": Verb("cli.gantry.users.list:list_users", "List the users and their rights."),
    "modify": Verb("cli.gantry.users.modify:modify", "Change the rights of a user."),
    "password": Verb("cli.gantry.users.password:password", "Give a user another password."),
    "remove": Verb("cli.gantry.users.remove:remove", "Remove users; they can call no more at once."),
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
