"""`gnt-job change-priority`: make jobs more or less urgent.

Source: cli.md 2, "change-priority"; luxid.md 2.5.
"""

from typing import Final, Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import UNFINISHED, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from cli.submitting.submitoptions import PRIORITIES
from common.queue.jobs import SUBMIT_PRIORITIES
from protocol.luxi.jobs import ChangeJobs, JobChange

_ACTION: Final = Action("change the priority of", UNFINISHED)


@click.command(
    "change-priority",
    cls=Command,
    examples=(
        "gnt-job change-priority --priority high 27491",
        "gnt-job change-priority --priority low --mine --queued",
    ),
)
@click.option("--priority", type=click.Choice(PRIORITIES), required=True, help="The new priority.")
@selection_options
def change_priority(priority: str, is_forced: bool, is_dry: bool, **chosen: Unpack[ChoiceOptions]) -> int:
    """Give another priority to these jobs, or to all unfinished jobs for which the conditions hold."""
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    change = JobChange(priority=SUBMIT_PRIORITIES[priority])
    answers = call_in_parts(job_ids, lambda ids: ChangeJobs(ids, change))
    return tell_answers(job_ids, answers, is_json=wants_json())
