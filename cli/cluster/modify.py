"""`gnt-cluster modify`: change the limits of the cluster.

Source: cli.md 5.
"""

import click

from cli.commands import Command
from cli.connection import ask_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.screen import say_json
from cli.submission import Wishes, submit_jobs, with_wishes
from protocol.luxi.queue import SetJobLimits

_COUNT = click.IntRange(min=1)


@click.command(
    "modify",
    cls=Command,
    examples=("gnt-cluster modify --max-running-jobs 20", "gnt-cluster modify --candidate-pool-size 5"),
)
@click.option("--max-running-jobs", type=_COUNT, metavar="N", help="Jobs that may run at the same time.")
@click.option(
    "--max-tracked-jobs",
    type=_COUNT,
    metavar="N",
    help="Running jobs that a Ganeti follows by events; here all of them are.",
)
@click.option(
    "-C",
    "--candidate-pool-size",
    type=_COUNT,
    metavar="N",
    help="Master candidates that the cluster should have, the master among them.",
)
def modify(max_running_jobs: int | None, max_tracked_jobs: int | None, candidate_pool_size: int | None) -> int:
    """Change limits of the cluster; they are in force at once, and also after a restart.

    A new size of the candidate pool is set by a job, which promotes nodes to fill the pool.
    """
    if max_running_jobs is None and max_tracked_jobs is None and candidate_pool_size is None:
        raise click.UsageError("nothing to change; name a limit, as in: gnt-cluster modify --max-running-jobs 20")
    if max_running_jobs is not None or max_tracked_jobs is not None:
        ask_luxid(SetJobLimits(max_running_jobs, max_tracked_jobs))
    if candidate_pool_size is not None and (code := _resize_pool(candidate_pool_size)) != DONE:
        return code
    if wants_json():
        limits = {"max_running_jobs": max_running_jobs, "max_tracked_jobs": max_tracked_jobs}
        say_json(limits if candidate_pool_size is None else {**limits, "candidate_pool_size": candidate_pool_size})
    return DONE


def _resize_pool(size: int) -> int:
    """Set the size by a job, and wait for its end; return the exit code."""
    wishes = Wishes(
        priority=None,
        reason=None,
        is_waiting=True,
        is_ganeti_form=False,
        prints_ids=False,
        program="gnt-cluster",
    )
    op = with_wishes({"OP_ID": "OP_CLUSTER_SET_PARAMS", "candidate_pool_size": size}, wishes, "modify")
    return submit_jobs([[op]], wishes)
