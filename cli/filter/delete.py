"""`gnt-filter delete`: delete rules.

Source: cli.md 3, "delete".
"""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.screen import complain, say_json
from common.errors import RemoteError
from protocol.luxi.filters import DeleteFilter


@click.command("delete", cls=Command, examples=("gnt-filter delete 7f4b2cb5-5b4c-4ba0-9ba3-4e1c4c0a9a2b",))
@click.argument("uuids", metavar="UUID...", nargs=-1, required=True)
def delete(uuids: Sequence[str]) -> int:
    """Delete these rules; jobs that waited because of them may run."""
    deleted = []
    with open_luxid() as client:
        for uuid in uuids:
            try:
                client.call(DeleteFilter(uuid))
                deleted.append(uuid)
            except RemoteError as error:
                complain(error.message)
    if wants_json():
        say_json(deleted)
    return DONE if len(deleted) == len(uuids) else FAILED
