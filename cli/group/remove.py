"""`gnt-group remove`: remove a node group.

Source: opcodes.md 4, GROUP_REMOVE.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_group
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("remove", cls=Command, examples=("gnt-group remove rack2",))
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
def remove(name: str, **options: Unpack[SubmitOptions]) -> int:
    """Remove GROUP, which must have no nodes; the last group stays.

    Waits for the job, except with --submit.
    """
    return carry_out({"OP_ID": "OP_GROUP_REMOVE", "group_name": name}, options, "gnt-group", "remove")
