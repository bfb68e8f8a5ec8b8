"""`gantry token create`: make a token for a program."""

import time
from typing import Final

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.durations import POSITIVE_DURATION
from cli.exitcodes import DONE
from cli.gantry.access.spreading import spread
from cli.gantry.access.tokens.shown import token_json
from cli.gantry.access.users.typed import check_unix_user
from cli.screen import remark, say, say_json
from common.webaccess.grants import check_words
from common.webaccess.tokensfile import TokensFile, Wish
from common.webaccess.userstext import check_name
from common.words.times import clock

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
@click.option("--rights", metavar="RIGHTS", required=True, help="Single rights and roles, with commas.")
@click.option(
    "--expires", metavar="DURATION", default="90d", callback=_lifetime, help="How long it may be used (90d), or never."
)
@click.option("--run-as", metavar="LOGIN", help="Whose the jobs are; without one no commands can be run.")
def create(name: str, rights: str, expires: float | None, run_as: str | None) -> int:
    """Make a token, and print it; it is shown this once, and only a digest of it is stored."""
    settings = installation()
    check_name(name)
    words = check_words([word.strip() for word in rights.split(",") if word.strip()])
    if run_as is not None:
        check_unix_user(run_as, settings.paths)
    now = time.time()
    token, text = TokensFile(settings.paths).create(Wish(name, words, expires, run_as), now)
    if wants_json():
        say_json({"token": str(text), **token_json(token, now)})
    else:
        say(str(text))
        until = "for ever" if token.expires_at is None else f"until {clock(token.expires_at)}"
        remark(f"token '{token.id}' is for '{name}', {until}; keep it now, it is not shown again")
    spread(settings)
    return DONE
