"""`gnt-node remove`: take a node out of the cluster.

Source: opcodes.md 4, NODE_REMOVE.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_node
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("remove", cls=Command, examples=("gnt-node remove web7",))
@submit_options
@click.argument("name", metavar="NODE", shell_complete=complete_node)
def remove(name: str, **options: Unpack[SubmitOptions]) -> int:
    """Take NODE out of the cluster, also if it is dead; it must not be the master, nor have instances.

    Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_NODE_REMOVE", "node_name": name}, options, "gnt-node", "remove")
