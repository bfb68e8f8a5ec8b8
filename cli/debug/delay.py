"""`gnt-debug delay`: a job that sleeps.

Source: cli.md 4, "delay".
"""

from collections.abc import Sequence
from typing import Unpack

import click

from cli.commands import Command
from cli.durations import DURATION
from cli.submission import submit_jobs
from cli.submitting.submitoptions import SubmitOptions, submit_options
from cli.submitting.wishes import Wishes, job_with_wishes


@click.command("delay", cls=Command, examples=("gnt-debug delay 2.5", "gnt-debug delay --node node1 --wait 1"))
@click.option("-n", "--node", "nodes", multiple=True, metavar="NAME", help="Sleep on this node; repeatable.")
@click.option("--no-master", is_flag=True, help="Do not sleep on the master.")
@click.option("-r", "--repeat", type=click.IntRange(min=0), default=0, help="Repeat the sleep N times.")
@click.option("-i", "--interruptible", is_flag=True, help="Let it be ended through a socket.")
@click.option("-l", "--no-locks", is_flag=True, help="Do not lock the nodes.")
@submit_options
@click.argument("seconds", type=DURATION)
def delay(
    seconds: float,
    nodes: Sequence[str],
    no_master: bool,
    repeat: int,
    interruptible: bool,
    no_locks: bool,
    **options: Unpack[SubmitOptions],
) -> int:
    """Submit a job that sleeps for SECONDS; it holds the locks of its nodes meanwhile."""
    wishes = Wishes(**options, program="gnt-debug")
    op = {
        "OP_ID": "OP_TEST_DELAY",
        "duration": seconds,
        "on_master": not no_master,
        "on_nodes": list(nodes),
        "repeat": repeat,
        "interruptible": interruptible,
        "no_locks": no_locks,
    }
    return submit_jobs([job_with_wishes([op], wishes, "delay")], wishes)
