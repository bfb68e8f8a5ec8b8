"""`gnt-job hold`: keep queued jobs from beginning.

Source: DESIGN section 16; everyday.md j.
"""

from typing import Final, Unpack

import click

from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import NOT_BEGUN, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from protocol.luxi.jobs import ChangeJobs, JobChange

_ACTION: Final = Action("hold", NOT_BEGUN)


@click.command(
    "hold",
    cls=Command,
    examples=(
        "gnt-job hold 27491",
        "gnt-job hold --why 'the disk of web1 is being changed' 27491 27492",
        "gnt-job hold --where 'summary=~upgrade' --mine",
    ),
)
@click.option("--why", metavar="TEXT", default="", help="Say why; gnt-job why shows it.")
@selection_options
def hold(why: str, is_forced: bool, is_dry: bool, **chosen: Unpack[ChoiceOptions]) -> int:
    """Keep these jobs from beginning until gnt-job release lets them go; or all queued jobs that meet the conditions.

    A job that is held takes no place and no lock, and keeps its place in line. One that has begun cannot be held.
    """
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    answers = call_in_parts(job_ids, lambda ids: ChangeJobs(ids, JobChange(hold=why)))
    return tell_answers(job_ids, answers, is_json=wants_json())
