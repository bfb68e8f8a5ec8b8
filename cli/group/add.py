"""`gnt-group add`: make a node group.

Source: opcodes.md 4, GROUP_ADD.
"""

from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.group.values import GroupOptions, group_options, op_values, submission
from cli.submitting.submitoptions import submit_options


@click.command(
    "add",
    cls=Command,
    examples=("gnt-group add rack2", "gnt-group add --alloc-policy last_resort --node-parameters ssh_port=2222 rack2"),
)
@group_options
@submit_options
@click.argument("name", metavar="GROUP")
def add(name: str, **options: Unpack[GroupOptions]) -> int:
    """Make the node group GROUP; nodes are put into it with: gnt-group assign-nodes.

    What is left out is as the cluster has it. Waits for the job, except with --submit.
    """
    return carry_out(
        {"OP_ID": "OP_GROUP_ADD", "group_name": name, **op_values(options)}, submission(options), "gnt-group", "add"
    )
