"""`gnt-cluster redist-conf`: send the configuration to all nodes again.

Source: cli.md 5; noded.md 8.
"""

from typing import Unpack

import click

from cli.commands import Command
from cli.submission import SubmitOptions, Wishes, submit_jobs, submit_options, with_wishes


@click.command(
    "redist-conf", cls=Command, examples=("gnt-cluster redist-conf --wait", "gnt-cluster redist-conf --submit")
)
@submit_options
def redist_conf(**options: Unpack[SubmitOptions]) -> int:
    """Submit a job that sends the configuration, ssconf and shared files to all nodes again.

    Nodes that are not reached are named in the job's log, which --wait shows.
    """
    wishes = Wishes(**options, program="gnt-cluster")
    return submit_jobs([[with_wishes({"OP_ID": "OP_CLUSTER_REDIST_CONF"}, wishes, "redist-conf")]], wishes)
