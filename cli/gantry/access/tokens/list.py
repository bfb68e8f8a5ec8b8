"""`gantry token list`: the tokens of programs."""

import time
from typing import Final

import click

from cli.commands import Command
from cli.context import installation, uses_color, wants_json
from cli.exitcodes import DONE
from cli.gantry.access.tokens.shown import token_json
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import say_json
from cli.tables import Column, Layout, render
from common.webaccess.tokens import Token
from common.webaccess.tokensfile import TokensFile
from common.words.times import clock

_TITLES: Final = ("TOKEN", "FOR", "STATE", "EXPIRES", "RUNS AS", "RIGHTS")


@click.command("list", cls=Command, examples=("gantry token list", "gantry token list --output json"))
@table_options
def list_tokens(no_headers: bool, separator: str | None) -> int:
    """List the tokens, the oldest first, without their secrets; those that are over stay for 30 days."""
    now = time.time()
    tokens = TokensFile(installation().paths).tokens()
    if wants_json():
        say_json([token_json(token, now) for token in tokens])
        return DONE
    rows = [_cells(token, now) for token in tokens]
    show_lines(render([*map(Column, _TITLES)], rows, Layout(not no_headers, separator, has_color=uses_color())))
    return DONE


def _cells(token: Token, now: float) -> tuple[str, ...]:
    until = "never" if token.expires_at is None else clock(token.expires_at)
    return token.id, token.name, token.state(now), until, token.run_as or "", ",".join(token.rights)
