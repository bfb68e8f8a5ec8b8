"""`gnt-group rename`: give a node group another name.

Source: opcodes.md 4, GROUP_RENAME.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_group
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("rename", cls=Command, examples=("gnt-group rename rack2 north",))
@submit_options
@click.argument("name", metavar="GROUP", shell_complete=complete_group)
@click.argument("new_name", metavar="NAME")
def rename(name: str, new_name: str, **options: Unpack[SubmitOptions]) -> int:
    """Give GROUP the name NAME; its uuid and all that is in it stay.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_GROUP_RENAME", "group_name": name, "new_name": new_name}
    return carry_out(op, options, "gnt-group", "rename")
