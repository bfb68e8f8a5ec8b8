"""`gnt-job cancel`: cancel waiting jobs, or end running ones.

Source: cli.md 2, "cancel"; luxid.md 2.4; `CancelJobs`.
"""

from typing import Final, Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import UNFINISHED, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from protocol.luxi.jobs import CancelJobs

_ACTION: Final = Action("cancel", UNFINISHED)


@click.command(
    "cancel",
    cls=Command,
    examples=(
        "gnt-job cancel 27491",
        "gnt-job cancel --kill 27491",
        "gnt-job cancel --pending",
        "gnt-job cancel --where 'op=OP_RUN_COMMAND & summary=~upgrade' --dry-run",
    ),
)
@click.option(
    "--kill",
    is_flag=True,
    help="End running jobs too: their processes get TERM, later KILL; and what ended ones left to keep locks.",
)
@click.option("--yes-do-it", "--ya-rly", is_flag=True, expose_value=False, hidden=True)
@selection_options
def cancel(kill: bool, is_forced: bool, is_dry: bool, **chosen: Unpack[ChoiceOptions]) -> int:
    """Cancel these jobs, or all unfinished jobs for which the conditions hold."""
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    answers = call_in_parts(job_ids, lambda ids: CancelJobs(ids, kill))
    return tell_answers(job_ids, answers, is_json=wants_json())
