"""`gantry token revoke`: let tokens be used no more."""

import time
from collections.abc import Sequence

import click

from cli.commands import Command
from cli.context import installation, wants_json
from cli.exitcodes import DONE, FAILED
from cli.gantry.access.spreading import spread
from cli.screen import complain, say, say_json
from common.errors import NotFound
from common.webaccess.tokens import id_in
from common.webaccess.tokensfile import TokensFile


@click.command("revoke", cls=Command, examples=("gantry token revoke 0badcafe",))
@click.argument("tokens", metavar="TOKEN...", nargs=-1, required=True)
def revoke(tokens: Sequence[str]) -> int:
    """Let these tokens be used no more, from the next request on; the first part names a token."""
    settings = installation()
    file = TokensFile(settings.paths)
    revoked = []
    for text in tokens:
        try:
            file.revoke(token_id := id_in(text), time.time())
        except NotFound as error:
            complain(error.message)
        else:
            revoked.append(token_id)
    if wants_json():
        say_json(revoked)
    else:
        for token_id in revoked:
            say(f"token '{token_id}' is revoked")
    if revoked:
        spread(settings)
    return DONE if len(revoked) == len(tokens) else FAILED
