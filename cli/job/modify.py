"""`gnt-job modify`: change terms of queued jobs, what they wait for, and the time and tries of their commands.

Source: DESIGN section 16; everyday.md j.
"""

from collections.abc import Sequence
from typing import Final, Unpack

import click

from cli.choosing.filtercompletion import complete_label
from cli.choosing.jobchoice import ChoiceOptions, read_choice
from cli.choosing.jobids import JOB_IDS, Named, ids_of
from cli.choosing.selection import NOT_BEGUN, Action, call_in_parts, select_jobs, selection_options, tell_answers
from cli.commands import Command
from cli.context import wants_json
from cli.durations import DURATION
from cli.submitting.afterargs import AfterOptions, after_options, read_dependencies
from cli.submitting.submitoptions import PRIORITIES
from cli.submitting.termargs import JOB_NAME, LABEL, USE, InstantType
from common.ids import JobId
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.terms import Use
from common.wire import structure
from protocol.luxi.jobs import AfterJob, ChangeJobs, JobChange

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
        "gnt-job modify --timeout 2h --retries 3 27491",
        "gnt-job modify --use licences=2 --no-use web1:memory 27491",
        "gnt-job modify --batch PREV --at-most 4",
        "gnt-job modify --after-success 27480 --no-after 27479 27491",
    ),
)
@click.option("--name", type=JOB_NAME, help="The new name; '' for none.")
@click.option(
    "--label", "labels", type=LABEL, multiple=True, shell_complete=complete_label, help="Set this label; repeatable."
)
@click.option("--no-label", "without", metavar="KEY", multiple=True, help="Remove this label; repeatable.")
@click.option("--begin", type=_BeginType(), help="Do not begin before: 'tomorrow 02:00', 'in 3h'; 'now' for at once.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="The new priority.")
@click.option("--timeout", type=DURATION, help="End its command after this time: 90s, 5m, 2h; 0 for never.")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="After a failure run its command again, N times.")
@click.option(
    "--use", "uses", type=USE, multiple=True, help="Take units of a resource: licences=2, web1:memory=4G; repeatable."
)
@click.option(
    "--no-use", "without_uses", metavar="[NODE:]NAME", multiple=True, help="Take none of this resource; repeatable."
)
@click.option(
    "--at-most", type=click.IntRange(0), metavar="N", help="Of its batch so many run at once; 0 for any number."
)
@after_options
@click.option("--no-after", "without_after", type=JOB_IDS, multiple=True, help="Wait no more for this job; repeatable.")
@selection_options
def modify(
    name: str | None,
    labels: Sequence[tuple[str, str]],
    without: Sequence[str],
    begin: float | None,
    priority: str | None,
    timeout: float | None,
    retries: int | None,
    uses: Sequence[Use],
    without_uses: Sequence[str],
    at_most: int | None,
    depends: Sequence[tuple[Named, list[str]]],
    after_success: Sequence[Named],
    after_failure: Sequence[Named],
    after_all: Sequence[Named],
    without_after: Sequence[Named],
    is_forced: bool,
    is_dry: bool,
    **chosen: Unpack[ChoiceOptions],
) -> int:
    """Change these jobs, or all queued jobs for which the conditions hold; what is not named stays.

    Of a job that has begun only the priority can be changed. --timeout and --retries are for jobs of one command,
    --at-most is for jobs of a batch: name all of them, as each job has it by itself. A job can wait only for jobs that
    came before it.
    """
    after: AfterOptions = {
        "depends": depends,
        "after_success": after_success,
        "after_failure": after_failure,
        "after_all": after_all,
    }
    change = JobChange(
        name,
        dict(labels),
        tuple(without),
        begin,
        priority=None if priority is None else SUBMIT_PRIORITIES[priority],
        uses={use.key: use.count for use in uses},
        without_uses=tuple(without_uses),
        timeout=timeout,
        retries=retries,
        at_most=at_most,
        after=_after(after),
        without_after=tuple(JobId(each) for named in without_after for each in ids_of(named, None)),
    )
    if change == JobChange():
        raise click.UsageError("say what to change, as in --name NAME, --begin TIME, --priority low or --timeout 2h")
    choice = read_choice(**chosen)
    job_ids = select_jobs(choice, _ACTION, is_forced=is_forced, is_dry=is_dry, is_json=wants_json())
    answers = call_in_parts(job_ids, lambda ids: ChangeJobs(ids, change))
    return tell_answers(job_ids, answers, is_json=wants_json())


def _after(options: AfterOptions) -> tuple[AfterJob, ...]:
    return tuple(
        structure({"job_id": job_id, "states": states}, AfterJob) for job_id, states in read_dependencies(options, None)
    )
