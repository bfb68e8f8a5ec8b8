"""`gnt-debug locks`: who holds which locks, and who waits for them.

Source: cli.md 4, "locks"; STYLE section 8.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

import click

from cli.commands import Command
from cli.connection import open_wconfd
from cli.context import wants_json
from cli.lockview import LockRow, read_lock_view
from cli.run import DONE
from cli.screen import say, say_json
from cli.tables import Column, Layout, render
from cli.times import DURATION
from protocol.blocking import BlockingClient
from protocol.wconfd import ListLocksWaitingStatus

_COLUMNS: Final = (Column("NAME"), Column("MODE"), Column("OWNER"), Column("PENDING"))


@click.command("locks", cls=Command, examples=("gnt-debug locks", "gnt-debug locks --interval 2"))
@click.option("--interval", type=DURATION, help="Show it again and again, with this pause.")
@click.option("--no-headers", is_flag=True, help="Leave out the header.")
@click.option("--separator", metavar="TEXT", help="Put this between the columns, and do not align them.")
def locks(interval: float | None, no_headers: bool, separator: str | None) -> int:
    """Show the locks that somebody holds or waits for, in lock order."""
    layout = Layout(not no_headers, separator)
    with open_wconfd() as client:
        _show(client, layout)
        while interval is not None:
            sys.stdout.flush()
            time.sleep(interval)
            say("")
            _show(client, layout)
    return DONE


def _show(client: BlockingClient, layout: Layout) -> None:
    answer = client.call(ListLocksWaitingStatus())
    if wants_json():
        say_json(answer)
        return
    for line in render(_COLUMNS, map(_cells, read_lock_view(answer).rows), layout):
        say(line)


def _cells(row: LockRow) -> Sequence[str]:
    owners = ",".join(str(owner) for owner, _ in row.owners)
    pending = ",".join(f"{mode.value}:{owner}" for owner, mode in row.pending)
    return (str(row.lock), row.mode.value if row.mode else "", owners, pending)
