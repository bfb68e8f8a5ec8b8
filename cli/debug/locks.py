"""`gnt-debug locks` and `gantry locks`: who holds which locks, and who waits for them.

Source: cli.md 4, "locks".
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import click

from cli.clusterstate.locks import ask_lock_view, known_orphans, left_processes, orphan_sentences
from cli.commands import Command
from cli.connection import Luxid, open_luxid
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE, UNKNOWN_FIELD
from cli.locknames import lock_names
from cli.options import DURATION
from cli.screen import remark, say_json, warn, write
from cli.tables import UNKNOWN, Column, Layout, say_table, table_options
from protocol.luxi.queries import LockRow

# field -> the text of its cell
_FIELDS: Final[Mapping[str, Callable[[LockRow], str]]] = {
    "name": lambda row: row.name,
    "mode": lambda row: row.mode or "",
    "owner": lambda row: ",".join(row.owners),
    "pending": lambda row: ",".join(f"{mode}:{','.join(owners)}" for mode, owners in row.pending),
}
# top left corner, then erase all, so that the table is redrawn in place
_CLEAR: Final = "\x1b[H\x1b[2J"


@click.command("locks", cls=Command, examples=("gantry locks", "gnt-debug locks --interval 2 -o name,pending"))
@click.option(
    "-o", "--fields", "chosen", metavar="FIELDS", help="Columns, separated by commas: name, mode, owner, pending."
)
@click.option("--interval", type=DURATION, help="Show it again and again, with this pause; Ctrl-C ends it.")
@table_options
@click.option("-v", "--verbose", is_flag=True, help="Explain why a cell has no value.")
def locks(chosen: str | None, interval: float | None, layout: Layout, verbose: bool) -> int:
    """Show the locks that are held or waited for, in lock order, then the jobs that others wait for.

    Locks of nodes and node groups are named by uuid. Behind it stands their name, but not for programs, with
    --no-headers, --separator or --output json.
    """
    names = [name for name in chosen.removeprefix("+").split(",") if name] if chosen else []
    names = [*_FIELDS, *names] if chosen is None or chosen.startswith("+") else names
    unknown = UNKNOWN if verbose else "??"
    with open_luxid() as client:
        _show(client, names, unknown, layout)
        while interval is not None:
            sys.stdout.flush()
            time.sleep(interval)
            write(_CLEAR if uses_color() and not wants_json() else "\n")
            _show(client, names, unknown, layout)
    wrong = [name for name in names if name not in _FIELDS]
    for name in wrong:
        warn(f"unknown field '{name}'; fields are {', '.join(_FIELDS)}")
    return UNKNOWN_FIELD if wrong else DONE


def _show(client: Luxid, names: Sequence[str], unknown: str, layout: Layout) -> None:
    rows = ask_lock_view(client)
    if wants_json():
        say_json([attrs.asdict(row) for row in rows])
        return
    every = [{name: show(row) for name, show in _FIELDS.items()} for row in rows]
    for sentence in left_processes(rows):
        remark(sentence)
    for sentence in orphan_sentences(known_orphans() if any(row.owners for row in rows) else ()):
        remark(sentence)
    put_names = lock_names(row.name for row in rows) if layout.is_for_people else str
    cells = [[put_names(each.get(name, unknown)) for name in names] for each in every]
    say_table([Column(name.upper() if name in _FIELDS else name) for name in names], cells, layout)
