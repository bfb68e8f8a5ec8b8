"""`gantry ghosts`: the locks that are kept although their jobs' processes are gone.

Source: DESIGN section 14.
"""

from typing import Final

import click

from cli.clusterstate.ghostview import as_json, locks_text, owner_text
from cli.commands import Command
from cli.connection import ask_wconfd
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.screen import remark, say_json, say_styled
from cli.tables import Column, Layout, render
from cli.why.locknames import lock_names
from common.words.times import clock
from protocol.wconfd.ghosts import Ghost, ListGhosts

_COLUMNS: Final = tuple(map(Column, ("JOB", "NODE", "COMMAND", "SINCE", "ENDS", "LOCKS")))


@click.command("ghosts", cls=Command, examples=("gantry ghosts", "gantry ghosts --output json | jq -r .[].job"))
def ghosts() -> int:
    """Show the locks that are kept for commands on nodes that may still run, although their jobs' processes are gone.

    They are released when the node says that the command has ended, by 'gantry fenced NODE', or at the
    time under ENDS.
    """
    found = ask_wconfd(ListGhosts())
    if wants_json():
        say_json([as_json(ghost) for ghost in found])
        return DONE
    if not found:
        remark("there are no ghosts: every lock is held by a process that lives")
        return DONE
    rows = [
        [owner_text(ghost), guard.node, guard.key, clock(ghost.since), _end(ghost), locks_text(ghost.locks)]
        for ghost in found
        for guard in ghost.guards
    ]
    put_names = lock_names(row[-1] for row in rows)
    for line in render(_COLUMNS, [[*row[:-1], put_names(row[-1])] for row in rows], Layout(has_color=uses_color())):
        say_styled(line)
    return DONE


def _end(ghost: Ghost) -> str:
    return "" if ghost.ends_at is None else clock(ghost.ends_at)
