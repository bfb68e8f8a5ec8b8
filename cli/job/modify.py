"""`gnt-job modify`: change name, labels, begin and priority of queued jobs.

Source: DESIGN section 16; everyday.md j.
"""

from collections.abc import Sequence
from typing import Final, Unpack

import click

from cli.choosing.filtercompletion import complete_label
from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.selection import NOT_BEGUN, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from cli.submitting.submitoptions import PRIORITIES
from cli.submitting.termargs import JOB_NAME, LABEL, InstantType
from common.queue.jobs import SUBMIT_PRIORITIES
from protocol.luxi.jobs import ChangeJobs, JobChange

_ACTION: Final = Action("modify", NOT_BEGUN)
_AT_ONCE: Final = "now"


class _BeginType(InstantType):
    """An instant to come, or `now`, which is 0."""

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return 0.0 if value == _AT_ONCE else super().convert(value, param, ctx)


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gnt-job modify --name backup-web1 --label team=web 27491",
        "gnt-job modify --begin 'tomorrow 02:00' 27491 27492",
        "gnt-job modify --begin now --priority high 27491",
        "gnt-job modify --no-label team --mine --queued",
    ),
)
@click.option("--name", type=JOB_NAME, help="The new name; '' for none.")
@click.option(
    "--label", "labels", type=LABEL, multiple=True, shell_complete=complete_label, help="Set this label; repeatable."
)
@click.option("--no-label", "without", metavar="KEY", multiple=True, help="Remove this label; repeatable.")
@click.option("--begin", type=_BeginType(), help="Do not begin before: 'tomorrow 02:00', 'in 3h'; 'now' for at once.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="The new priority.")
@selection_options
def modify(
    name: str | None,
    labels: Sequence[tuple[str, str]],
    without: Sequence[str],
    begin: float | None,
    priority: str | None,
    is_forced: bool,
    is_dry: bool,
    **chosen: Unpack[ChoiceOptions],
) -> int:
    """Change these jobs, or all queued jobs for which the conditions hold; what is not named stays.

    Of a job that has begun only the priority can be changed.
    """
    number = None if priority is None else SUBMIT_PRIORITIES[priority]
    change = JobChange(name, dict(labels), tuple(without), begin, priority=number)
    if change == JobChange():
        raise click.UsageError("say what to change: --name, --label, --no-label, --begin or --priority")
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    answers = call_in_parts(job_ids, lambda ids: ChangeJobs(ids, change))
    return tell_answers(job_ids, answers, is_json=wants_json())
