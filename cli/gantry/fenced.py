"""`gantry fenced`: an operator's word that nothing runs on a node any more.

Source: DESIGN section 14.
"""

import attrs
import click

from cli.choosing.namecompletion import complete_node
from cli.clusterstate.ghostview import as_json, locks_text, owner_text
from cli.commands import MachineCommand
from cli.connection import open_wconfd
from cli.context import wants_json
from cli.exitcodes import DONE, NOT_CONFIRMED
from cli.screen import confirm, remark, say, say_json
from cli.user import user_name
from cli.why.locknames import lock_names
from protocol.wconfd.ghosts import Ghost, LayGuards, ListGhosts


@attrs.frozen
class _Release:
    """What the word does to one ghost."""

    ghost: Ghost
    # keys of the commands on the node
    keys: tuple[str, ...]
    # other nodes on which commands of it may run: its locks are kept
    other_nodes: tuple[str, ...]

    @property
    def words(self) -> str:
        what = f"job {owner_text(self.ghost)}: command {', '.join(self.keys)}"
        if self.other_nodes:
            nodes = ", ".join(f"'{node}'" for node in self.other_nodes)
            return f"{what}; its locks are kept until node {nodes} answers: {locks_text(self.ghost.locks)}"
        return f"{what}; its locks become free: {locks_text(self.ghost.locks)}"


@click.command(
    "fenced", cls=MachineCommand, examples=("gantry fenced web2", "fence-agent web2 && gantry fenced web2 --yes")
)
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.argument("node", shell_complete=complete_node)
def fenced(node: str, yes: bool) -> int:
    """Say that nothing runs on NODE any more, and release the locks that are kept for commands there.

    Say it only of a node that is switched off or was reset: if a command still runs there, other jobs get
    its locks all the same. Jobs whose processes live are not concerned. 'gantry ghosts' shows what is kept.
    """
    with open_wconfd() as client:
        releases = _releases(node, client.call(ListGhosts()))
        if releases and not wants_json():
            put_names = lock_names(release.words for release in releases)
            for release in releases:
                say(put_names(release.words))
        if releases and not yes and not confirm(f"Is it certain that nothing of this runs on node '{node}' any more?"):
            remark("nothing was released; to answer yes in a script, add --yes")
            return NOT_CONFIRMED
        if releases:
            keys = tuple(key for release in releases for key in release.keys)
            client.call(LayGuards(keys, f"node {node}: fenced, says {user_name()}"))
    if wants_json():
        say_json(
            [{**as_json(release.ghost), "keys": release.keys, "freed": not release.other_nodes} for release in releases]
        )
    elif not releases:
        remark(f"no locks are kept for a command on node '{node}'")
    return DONE


def _releases(node: str, ghosts: tuple[Ghost, ...]) -> list[_Release]:
    return [
        _Release(ghost, keys, tuple(sorted({guard.node for guard in ghost.guards if guard.node != node})))
        for ghost in ghosts
        if (keys := tuple(guard.key for guard in ghost.guards if guard.node == node))
    ]
