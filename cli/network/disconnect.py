"""`gnt-network disconnect`: disconnect a network from node groups.

Source: opcodes.md 4, NETWORK_DISCONNECT.
"""

from collections.abc import Sequence
from typing import Unpack

import click

from cli.choosing.namecompletion import complete_group, complete_network
from cli.clusterjobs import carry_out_each
from cli.commands import Command
from cli.query import group_names
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command(
    "disconnect", cls=Command, examples=("gnt-network disconnect front", "gnt-network disconnect front rack1")
)
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_group)
def disconnect(name: str, groups: Sequence[str], **options: Unpack[SubmitOptions]) -> int:
    """Disconnect NETWORK from these node groups, or from all: a job for each.

    Waits for the jobs, except with --submit.
    """
    ops = [
        {"OP_ID": "OP_NETWORK_DISCONNECT", "group_name": group, "network_name": name}
        for group in groups or group_names()
    ]
    return carry_out_each(ops, options, "gnt-network", "disconnect")
