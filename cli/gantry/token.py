"""`gantry token`: tokens of programs that call over HTTP; each with its rights and its end."""

import time
from collections.abc import Sequence
from typing import Final

import click

from cli.commands import Command, CommandGroup, CommandVerb
from cli.context import installation, wants_json
from cli.exitcodes import DONE
from cli.gantry.user import change_each, check_unix_user, spread
from cli.options import POSITIVE_DURATION
from cli.screen import remark, say, say_json
from cli.tables import Column, Layout, render, show_lines, table_options
from common.webaccess.rights import check_words
from common.webaccess.tokens import NewToken, Token, TokensFile, id_in
from common.webaccess.users import check_name
from common.words.times import clock

VERBS: Final = {
    "create": CommandVerb("cli.gantry.token:create", "Make a token, and print it once."),
    "list": CommandVerb("cli.gantry.token:list_tokens", "List the tokens, without their secrets."),
    "revoke": CommandVerb("cli.gantry.token:revoke", "Revoke tokens."),
}

token = CommandGroup(
    "token",
    VERBS,
    help="Tokens with which programs call over HTTP, each with its own rights and its end.",
    examples=(
        "gantry token create --for ci --rights jobs.submit,jobs.read --expires 90d --run-as builder",
        "gantry token list",
        "gantry token revoke 0badcafe",
    ),
)


# Tokens as they are shown, to people and as JSON; never with their secrets.


def token_json(token: Token, now: float) -> dict[str, object]:
    return {
        "id": token.id,
        "name": token.name,
        "rights": list(token.rights),
        "run_as": token.run_as,
        "state": token.state(now),
        "made_at": token.made_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    }


# `gantry token create`: make a token for a program.


_NEVER: Final = "never"


def _lifetime(ctx: click.Context, param: click.Parameter, value: str) -> float | None:
    """Seconds; None: for ever."""
    return None if value == _NEVER else POSITIVE_DURATION.convert(value, param, ctx)


@click.command(
    "create",
    cls=Command,
    examples=(
        "gantry token create --for ci --rights jobs.submit,jobs.read --expires 90d --run-as builder",
        "gantry token create --for prometheus --rights metrics.read --expires never",
    ),
)
@click.option("--for", "name", metavar="NAME", required=True, help="What the token is for; logs and reasons name it.")
@click.option("--rights", metavar="RIGHTS", required=True, help="Single rights and roles, separated by commas.")
@click.option(
    "--expires", metavar="DURATION", default="90d", callback=_lifetime, help="How long it may be used (90d), or never."
)
@click.option("--run-as", metavar="LOGIN", help="Unix user of the jobs; without one no commands can be run.")
def create(name: str, rights: str, expires: float | None, run_as: str | None) -> int:
    """Make a token, and print it; it is shown this once, and only a digest of it is stored."""
    settings = installation()
    check_name(name)
    words = check_words([word.strip() for word in rights.split(",") if word.strip()])
    if run_as is not None:
        check_unix_user(run_as, settings.paths)
    now = time.time()
    token, text = TokensFile(settings.paths).create(NewToken(name, words, expires, run_as), now)
    if wants_json():
        say_json({"token": str(text), **token_json(token, now)})
    else:
        say(str(text))
        until = "for ever" if token.expires_at is None else f"until {clock(token.expires_at)}"
        remark(f"token '{token.id}' is for '{name}', {until}; keep it now, it is not shown again")
    spread(settings)
    return DONE


# `gantry token list`: the tokens of programs.


_TITLES: Final = ("TOKEN", "FOR", "STATE", "EXPIRES", "RUNS AS", "RIGHTS")


@click.command("list", cls=Command, examples=("gantry token list", "gantry token list --output json"))
@table_options
def list_tokens(layout: Layout) -> int:
    """List the tokens, the oldest first, without their secrets; those that are over stay for 30 days."""
    now = time.time()
    tokens = TokensFile(installation().paths).tokens()
    if wants_json():
        say_json([token_json(token, now) for token in tokens])
        return DONE
    rows = [_cells(token, now) for token in tokens]
    show_lines(render([*map(Column, _TITLES)], rows, layout))
    return DONE


def _cells(token: Token, now: float) -> tuple[str, ...]:
    until = "never" if token.expires_at is None else clock(token.expires_at)
    return token.id, token.name, token.state(now), until, token.run_as or "", ",".join(token.rights)


# `gantry token revoke`: let tokens be used no more.


@click.command("revoke", cls=Command, examples=("gantry token revoke 0badcafe",))
@click.argument("tokens", metavar="TOKEN...", nargs=-1, required=True)
def revoke(tokens: Sequence[str]) -> int:
    """Let these tokens be used no more, from the next request on; the first part names a token."""
    settings = installation()
    file = TokensFile(settings.paths)

    def end(text: str) -> str:
        file.revoke(token_id := id_in(text), time.time())
        return token_id

    return change_each(tokens, end, "token '{}' is revoked", settings)
