"""`gnt-job change-priority`: make jobs more or less urgent.

Source: cli.md 2, "change-priority"; luxid.md 2.5.
"""

from collections.abc import Sequence

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.selection import select_jobs, selection_options, tell_answers
from cli.submission import PRIORITIES
from common.jobs import SUBMIT_PRIORITIES
from common.locks import JobId
from protocol.luxi import ChangeJobPriority


@click.command("change-priority", cls=Command, examples=("gnt-job change-priority --priority high 27491",))
@click.option("--priority", type=click.Choice(PRIORITIES), required=True, help="How urgent they shall be.")
@selection_options
def change_priority(job_ids: Sequence[int], statuses: str | None, priority: str, is_forced: bool) -> int:
    """Give these jobs, or all in a state, another priority."""
    chosen = select_jobs(job_ids, statuses, is_forced=is_forced, action="change the priority of")
    number = SUBMIT_PRIORITIES[priority]
    with open_luxid() as client:
        answers = [client.call(ChangeJobPriority(JobId(job_id), number)) for job_id in chosen]
    return tell_answers(chosen, answers, is_json=wants_json())
