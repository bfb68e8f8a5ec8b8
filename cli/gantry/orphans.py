"""`gantry orphaned-locks`: the locks that are kept although their jobs' processes are gone.

Source: DESIGN section 14.
"""

from typing import Final

import attrs
import click

from cli.clusterstate.locks import as_json, locks_text, owner_text
from cli.commands import Command, MachineCommand
from cli.connection import ask_wconfd, open_wconfd, user_name
from cli.context import wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.locknames import lock_names
from cli.options import complete_node
from cli.screen import confirm, remark, say, say_json
from cli.tables import Column, say_table
from common.words.times import clock
from protocol.wconfd.locks import ListOrphanedLocks, OrphanedLocks, ReleaseKeptLocks

_COLUMNS: Final = tuple(map(Column, ("JOB", "NODE", "COMMAND", "SINCE", "ENDS", "LOCKS")))


@click.command(
    "orphaned-locks",
    cls=Command,
    examples=("gantry orphaned-locks", "gantry orphaned-locks --output json | jq -r .[].job"),
)
def orphaned_locks() -> int:
    """Show the locks that are kept for commands on nodes that may still run, although their jobs' processes are gone.

    They are released when the node says that the command has ended, by 'gantry fenced NODE', or at the
    time under ENDS.
    """
    found = ask_wconfd(ListOrphanedLocks())
    if wants_json():
        say_json([as_json(orphan) for orphan in found])
        return DONE
    if not found:
        remark("there are no orphaned locks: every lock is held by a process that lives")
        return DONE
    rows = [
        [owner_text(orphan), command.node, command.key, clock(orphan.since), _end(orphan), locks_text(orphan.locks)]
        for orphan in found
        for command in orphan.commands
    ]
    put_names = lock_names(row[-1] for row in rows)
    say_table(_COLUMNS, [[*row[:-1], put_names(row[-1])] for row in rows])
    return DONE


def _end(orphan: OrphanedLocks) -> str:
    return "" if orphan.ends_at is None else clock(orphan.ends_at)


# `gantry fenced`: an operator's word that nothing runs on a node any more.
#
# Source: DESIGN section 14.


@attrs.frozen
class _Release:
    """What the word does to the locks of one dead owner."""

    orphan: OrphanedLocks
    # keys of the commands on the node
    keys: tuple[str, ...]
    # other nodes on which commands of it may run: its locks are kept
    other_nodes: tuple[str, ...]

    @property
    def words(self) -> str:
        what = f"job {owner_text(self.orphan)}: command {', '.join(self.keys)}"
        if self.other_nodes:
            nodes = ", ".join(f"'{node}'" for node in self.other_nodes)
            return f"{what}; its locks are kept until node {nodes} answers: {locks_text(self.orphan.locks)}"
        return f"{what}; its locks become free: {locks_text(self.orphan.locks)}"


@click.command(
    "fenced", cls=MachineCommand, examples=("gantry fenced web2", "fence-agent web2 && gantry fenced web2 --yes")
)
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.argument("node", shell_complete=complete_node)
def fenced(node: str, yes: bool) -> int:
    """Say that nothing runs on NODE any more, and release the locks that are kept for commands there.

    Say it only of a node that is switched off or was reset: if a command still runs there, other jobs get
    its locks all the same. Jobs whose processes live are not concerned. 'gantry orphaned-locks' shows what is kept.
    """
    with open_wconfd() as client:
        releases = _releases(node, client.call(ListOrphanedLocks()))
        if releases and not wants_json():
            put_names = lock_names(release.words for release in releases)
            for release in releases:
                say(put_names(release.words))
        if releases and not yes and not confirm(f"Is it certain that nothing of this runs on node '{node}' any more?"):
            remark("nothing was released; to answer yes in a script, add --yes")
            return NOT_CONFIRMED
        if releases:
            keys = tuple(key for release in releases for key in release.keys)
            client.call(ReleaseKeptLocks(keys, f"node {node}: fenced, says {user_name()}"))
    if wants_json():
        say_json(
            [
                {**as_json(release.orphan), "keys": release.keys, "freed": not release.other_nodes}
                for release in releases
            ]
        )
    elif not releases:
        remark(f"no locks are kept for a command on node '{node}'")
    return DONE


def _releases(node: str, orphans: tuple[OrphanedLocks, ...]) -> list[_Release]:
    return [
        _Release(orphan, keys, tuple(sorted({command.node for command in orphan.commands if command.node != node})))
        for orphan in orphans
        if (keys := tuple(command.key for command in orphan.commands if command.node == node))
    ]
