"""`gnt-network remove`: remove a network.

Source: opcodes.md 4, NETWORK_REMOVE.
"""

from typing import Unpack

import click

from cli.choosing.namecompletion import complete_network
from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("remove", cls=Command, examples=("gnt-network remove front",))
@click.option("-f", "--force", is_flag=True, help="Accepted as by Ganeti's command; a network in use stays.")
@submit_options
@click.argument("name", metavar="NETWORK", shell_complete=complete_network)
def remove(name: str, force: bool, **options: Unpack[SubmitOptions]) -> int:
    """Remove NETWORK, which no group may be connected to, and no instance use.

    Waits for the job, except with --submit.
    """
    op = {"OP_ID": "OP_NETWORK_REMOVE", "network_name": name, "force": force}
    return carry_out(op, options, "gnt-network", "remove")
