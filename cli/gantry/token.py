"""`gantry token`: tokens of programs that call over HTTP; each verb is a module of the folder `access/tokens`."""

from typing import Final

from cli.commands import Group, Verb

VERBS: Final = {
    "create": Verb("cli.gantry.access.tokens.create:create", "Make a token, and print it once."),
    "list": Verb("cli.gantry.access.tokens.list:list_tokens", "List the tokens, without their secrets."),
    "revoke": Verb("cli.gantry.access.tokens.revoke:revoke", "Let tokens be used no more."),
}

token = Group(
    "token",
    VERBS,
    help="Tokens with which programs call over HTTP, each with its own rights and its end.",
    examples=(
        "gantry token create --for ci --rights jobs.submit,jobs.read --expires 90d --run-as builder",
        "gantry token list",
        "gantry token revoke 0badcafe",
    ),
)
