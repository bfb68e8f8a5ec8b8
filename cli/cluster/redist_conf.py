"""`gnt-cluster redist-conf`: send the configuration to all nodes again.

Source: cli.md 5; noded.md 8.
"""

from typing import Unpack

import click

from cli.clusterjobs import carry_out
from cli.commands import Command
from cli.submitting.submitoptions import SubmitOptions, submit_options


@click.command("redist-conf", cls=Command, examples=("gnt-cluster redist-conf", "gnt-cluster redist-conf --submit"))
@submit_options
def redist_conf(**options: Unpack[SubmitOptions]) -> int:
    """Send the configuration, ssconf and shared files to all nodes again.

    The job's log names the nodes that are not reached.
    """
    return carry_out({"OP_ID": "OP_CLUSTER_REDIST_CONF"}, options, "gnt-cluster", "redist-conf")
