"""`gnt-network rename`: give a network another name.

Source: opcodes.md 4, NETWORK_RENAME.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_network
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("rename", cls=Command, examples=("gnt-network rename front public",))
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
@click.argument("new_name", metavar="NAME")
def rename(name: str, new_name: str, **options: Unpack[SubmitOptions]) -> int:
    """Give NETWORK the name NAME; its uuid, its pool and its connections stay.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_NETWORK_RENAME", "network_name": name, "new_name": new_name}
    return carry_out(op, options, "gnt-network", "rename")
