"""`gnt-job release`: let held jobs go.

Source: DESIGN section 16; everyday.md j.
"""

from typing import Final, Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import NOT_BEGUN, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from protocol.luxi.jobs import ChangeJobs, JobChange

_ACTION: Final = Action("release", ["&", NOT_BEGUN, ["?", "hold"]])


@click.command(
    "release",
    cls=Command,
    examples=("gnt-job release 27491", "gnt-job release --mine --queued"),
)
@selection_options
def release(is_forced: bool, is_dry: bool, **chosen: Unpack[ChoiceOptions]) -> int:
    """Let these jobs begin as if they had never been held, or all held jobs for which the conditions hold."""
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    answers = call_in_parts(job_ids, lambda ids: ChangeJobs(ids, JobChange(release=True)))
    return tell_answers(job_ids, answers, is_json=wants_json())
