"""`gnt-group assign-nodes`: put nodes into a node group.

Source: opcodes.md 4, GROUP_ASSIGN_NODES.
"""

from collections.abc import Sequence
from typing import Unpack

import click

from cli.choosing.namecompletion import complete_group, complete_node
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command(
    "assign-nodes",
    cls=Command,
    examples=("gnt-group assign-nodes rack2 web7 web8", "gnt-group assign-nodes --force rack2 web7"),
)
@click.option("-f", "--force", is_flag=True, help="Also if instances then have nodes in several groups.")
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True, shell_complete=complete_node)
def assign_nodes(name: str, nodes: Sequence[str], force: bool, **options: Unpack[SubmitOptions]) -> int:
    """Put these nodes into GROUP; they leave the groups in which they are.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_GROUP_ASSIGN_NODES", "group_name": name, "nodes": list(nodes), "force": force}
    return carry_out(op, options, "gnt-group", "assign-nodes")
