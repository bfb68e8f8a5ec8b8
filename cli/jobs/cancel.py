"""`gnt-job cancel`: cancel jobs that wait, or end those that run.

Source: cli.md 2, "cancel"; luxid.md 2.4.
"""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.selection import select_jobs, selection_options, tell_answers
from common.locks import JobId
from protocol.luxi import CancelJob


@click.command(
    "cancel", cls=Command, examples=("gnt-job cancel 27491", "gnt-job cancel --kill 27491", "gnt-job cancel --pending")
)
@click.option("--kill", is_flag=True, help="End a running job too: its processes get TERM, later KILL.")
@click.option("--yes-do-it", "--ya-rly", is_flag=True, expose_value=False, hidden=True)
@selection_options
def cancel(job_ids: Sequence[int], statuses: str | None, kill: bool, is_forced: bool) -> int:
    """Cancel these jobs, or all in a state."""
    chosen = select_jobs(job_ids, statuses, is_forced=is_forced, action="cancel")
    with open_luxid() as client:
        answers = [client.call(CancelJob(JobId(job_id), kill)) for job_id in chosen]
    return tell_answers(chosen, answers, is_json=wants_json())
