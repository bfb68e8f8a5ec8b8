"""`gnt-job wait`: wait silently until jobs have ended."""

import sys
import time
from collections.abc import Sequence

import click

from cli.choosing.jobids import ids_argument
from cli.choosing.namedjobs import named_jobs, naming_options
from cli.commands import Command
from cli.connection import open_luxid
from cli.context import command_line, program, wants_json
from cli.durations import DURATION
from cli.exitcodes import FAILED, INTERRUPTED
from cli.live.followers import until_ended
from cli.outcomes import fetch_outcomes, judge
from cli.screen import complain, remark, say_json
from common.words.times import duration


@click.command(
    "wait", cls=Command, examples=("gnt-job wait 27491 27492 && echo all done", "gnt-job wait --timeout 5m 27491")
)
@click.option("--timeout", type=DURATION, help="Give up after this time: 90, 90s, 5m, 2h.")
@naming_options
@ids_argument(is_required=False)
def wait(job_ids: Sequence[int], where: str | None, batches: Sequence[str], timeout: float | None) -> int:
    """Wait until all these jobs have ended; the exit code is 0 if all succeeded."""
    deadline = None if timeout is None else time.monotonic() + timeout
    job_ids = named_jobs(job_ids, where, batches)
    try:
        late = until_ended(job_ids, deadline)
        with open_luxid() as client:
            outcomes = fetch_outcomes(client, job_ids) if not late or wants_json() else []
    except KeyboardInterrupt:
        sys.stdout.flush()
        remark(f"\nthe jobs go on; wait again with: {command_line(program(), 'wait', *job_ids)}")
        return INTERRUPTED
    if wants_json():
        say_json([{"id": outcome.job_id, "status": outcome.status} for outcome in outcomes])
    return _give_up(late[0], timeout or 0) if late else judge(outcomes)


def _give_up(job_id: int, timeout_s: float) -> int:
    again = command_line(program(), "wait", job_id)
    complain(f"job {job_id} has not ended within {duration(timeout_s)}; it goes on, wait longer with: {again}")
    return FAILED
