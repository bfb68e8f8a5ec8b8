"""The verbs of `gnt-job` that change jobs."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs
import click

from cli.choosing.filtering import complete_label
from cli.choosing.jobids import JOB_IDS, Named, ids_of
from cli.choosing.jobs import JobChoice, choice_options
from cli.commands import Command
from cli.connection import Luxid, ask_luxid, open_luxid, with_own_name
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED, NOT_CONFIRMED
from cli.options import DURATION, F, with_options
from cli.query import filter_jobs, jobs_now
from cli.screen import complain, confirm, remark, say, say_json, say_result
from cli.submitting.arguments import JOB_NAME, LABEL, USE, AfterJobs, InstantType, after_options, read_dependencies
from cli.submitting.options import PRIORITIES
from cli.tables import JOB_FIELDS, job_table
from common.errors import Conflict, Denied, NotFound, RemoteError
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES, SUBMIT_PRIORITIES
from common.queue.terms import Use
from common.wire import structure
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression
from common.words.filters.jobfilter import statuses_filter
from common.words.outcome import no_such_job
from protocol.luxi.jobs import AfterJob, ArchiveJob, AutoArchiveJobs, CancelJobs, ChangeJobs, ChangeResult, TermsChange
from protocol.messages import Request

# Choose the jobs that a verb changes: by ids, or by conditions and after a confirmation.
#
# Source: cli.md 2, "cancel, change-priority".


UNFINISHED: Final[Expression] = ["!", statuses_filter(FINAL_NAMES)]
# a job that waits for locks is among them
NOT_BEGUN: Final[Expression] = statuses_filter(("queued", "waiting"))
# luxid bounds the number of ids in a call
_JOBS_AT_ONCE: Final = 10_000
# seconds for the reply to one call
_CALL_S: Final = 600.0
# jobs of which each is told by a line of its own
_MOST_TOLD: Final = 100
ENDED: Final[Expression] = statuses_filter(FINAL_NAMES)


class NotConfirmed(click.exceptions.Exit):
    """The user did not confirm."""

    def __init__(self) -> None:
        super().__init__(NOT_CONFIRMED)


@attrs.frozen
class JobAction:
    """What a verb does with the chosen jobs."""

    # words of the question: "cancel"
    words: str
    # condition that every job must meet for the verb to apply to it
    possible: Expression


def selection_options(function: F) -> F:
    """Ids or conditions; `--force` and `--dry-run`."""
    return with_options(
        function,
        click.option(
            "-f", "--force", "is_forced", is_flag=True, help="Do not ask before changing jobs chosen by conditions."
        ),
        click.option("--dry-run", "is_dry", is_flag=True, help="Only show how many and which."),
        choice_options,
    )


def select_jobs(choice: JobChoice, action: JobAction, *, is_forced: bool, is_dry: bool) -> Sequence[int]:
    """Return the chosen jobs; jobs chosen by conditions are shown first, and the user confirms.

    Raises:
        UsageError: neither ids nor a condition.
        Exit: no job matches, or it was a dry run.
        NotConfirmed: the user declines, or cannot be asked.
    """
    # --archived alone only widens the choice: it would be all jobs
    if not (choice.job_ids or choice.conditions or choice.statuses):
        raise click.UsageError("name jobs by their ids, or by a condition such as --pending or --where FILTER")
    if choice.is_plain and not is_dry:
        return choice.job_ids
    rows = _chosen(choice, action)
    if is_dry:
        _tell_dry_run(rows, action)
        raise click.exceptions.Exit(DONE)
    if not rows:
        if wants_json():
            say_json([])
        complain(f"no job to {action.words} matches; 'gnt-job list' shows all")
        raise click.exceptions.Exit(FAILED)
    if not is_forced:
        _ask(rows, action)
    return [row["id"] for row in rows]


def _chosen(choice: JobChoice, action: JobAction) -> list[JobRow]:
    with open_luxid() as client:
        fields = (*JOB_FIELDS, "archived") if choice.with_archived else JOB_FIELDS
        return filter_jobs(client, choice.expression(action.possible), fields)


def _tell_dry_run(rows: Sequence[JobRow], action: JobAction) -> None:
    if wants_json():
        say_json([row["id"] for row in rows])
        return
    for line in job_table(rows):
        say(line)
    remark(f"would {action.words} {_jobs(len(rows))}; nothing was changed")


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _ask(rows: Sequence[JobRow], action: JobAction) -> None:
    for line in job_table(rows):
        remark(line)
    if not confirm(f"{action.words} {'this job' if len(rows) == 1 else f'these {len(rows)} jobs'}?"):
        if wants_json():
            say_json([])
        remark(f"nothing was changed; to {action.words} them without this question add --force")
        raise NotConfirmed


def change_jobs(
    choice: JobChoice,
    action: JobAction,
    request: Callable[[tuple[JobId, ...]], Request[tuple[ChangeResult, ...]]],
    *,
    is_forced: bool,
    is_dry: bool,
) -> int:
    """Let luxid change the chosen jobs, and show what it did with each; return one exit code for all.

    Raises: as `select_jobs` and `Luxid.call`.
    """
    job_ids = select_jobs(choice, action, is_forced=is_forced, is_dry=is_dry)
    return tell_answers(job_ids, call_in_parts(job_ids, request))


def call_in_parts(
    job_ids: Sequence[int], request: Callable[[tuple[JobId, ...]], Request[tuple[ChangeResult, ...]]]
) -> list[ChangeResult]:
    """Call luxid for these jobs: once, or for very many a few times. Raises: as `Luxid.call`."""
    answers: list[ChangeResult] = []
    with open_luxid() as client:
        for start in range(0, len(job_ids), _JOBS_AT_ONCE):
            part = tuple(JobId(job_id) for job_id in job_ids[start : start + _JOBS_AT_ONCE])
            done: tuple[ChangeResult, ...] = client.call(request(part), timeout_s=_CALL_S)
            answers += done
    return answers


def tell_answers(job_ids: Sequence[int], answers: Sequence[ChangeResult]) -> int:
    """Show what luxid did with each job, of very many a line for all alike; return one exit code for all."""
    if wants_json():
        say_json(answers)
    pairs = list(zip(job_ids, answers, strict=True))
    told = (
        ((answer.is_done, _line(job_id, answer)) for job_id, answer in pairs)
        if len(pairs) <= _MOST_TOLD
        else _summed(pairs)
    )
    for is_done, line in told:
        if not is_done:
            complain(with_own_name(line))
        elif not wants_json():
            say(line)
    return DONE if all(answer.is_done for answer in answers) else FAILED


def _line(job_id: int, answer: ChangeResult) -> str:
    if answer.is_done or str(job_id) in answer.message:
        return answer.message
    return f"job {job_id}: {answer.message}"


def _summed(pairs: Sequence[tuple[int, ChangeResult]]) -> Iterator[tuple[bool, str]]:
    """A line for all jobs of which the same is told, but for their ids."""
    alike: dict[tuple[bool, str], list[tuple[int, ChangeResult]]] = defaultdict(list)
    for job_id, answer in pairs:
        alike[answer.is_done, _without_id(job_id, answer.message)].append((job_id, answer))
    for (is_done, message), found in alike.items():
        ids = [job_id for job_id, _ in found]
        if len(found) == 1:
            yield is_done, _line(*found[0])
        else:
            yield is_done, f"each of {len(ids):,} jobs, {min(ids)} to {max(ids)}, {message}"


def _without_id(job_id: int, message: str) -> str:
    """What is told of a job, as of any: without 'job N' at its beginning, with ID for its id elsewhere."""
    rest = re.sub(rf"\Ajob {job_id}\b:? ?", "", message, flags=re.IGNORECASE)
    return re.sub(rf"\b{job_id}\b", "ID", rest)


# `gnt-job cancel`: cancel waiting jobs, or end running ones.
#
# Source: cli.md 2, "cancel"; luxid.md 2.4; `CancelJobs`.


_CANCEL: Final = JobAction("cancel", UNFINISHED)


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
def cancel(kill: bool, choice: JobChoice, is_forced: bool, is_dry: bool) -> int:
    """Cancel these jobs, or all unfinished jobs for which the conditions hold."""
    return change_jobs(choice, _CANCEL, lambda ids: CancelJobs(ids, kill), is_forced=is_forced, is_dry=is_dry)


# `gnt-job hold`: keep queued jobs from beginning.
#
# Source: DESIGN section 16; everyday.md j.


_HOLD: Final = JobAction("hold", NOT_BEGUN)


@click.command(
    "hold",
    cls=Command,
    examples=(
        "gnt-job hold 27491",
        "gnt-job hold --why 'the disk of web1 is being changed' 27491 27492",
        "gnt-job hold --where 'summary=~upgrade' --mine",
    ),
)
@click.option("--why", metavar="TEXT", default="", help="The reason; gnt-job why shows it.")
@selection_options
def hold(why: str, choice: JobChoice, is_forced: bool, is_dry: bool) -> int:
    """Keep these jobs from beginning until gnt-job release lets them go; or all queued jobs that meet the conditions.

    A job that is held takes no place and no lock, and keeps its place in line. One that has begun cannot be held.
    """
    return change_jobs(
        choice, _HOLD, lambda ids: ChangeJobs(ids, TermsChange(hold=why)), is_forced=is_forced, is_dry=is_dry
    )


# `gnt-job release`: let held jobs go.
#
# Source: DESIGN section 16; everyday.md j.


_RELEASE: Final = JobAction("release", ["&", NOT_BEGUN, ["?", "hold"]])


@click.command(
    "release",
    cls=Command,
    examples=("gnt-job release 27491", "gnt-job release --mine --queued"),
)
@selection_options
def release(choice: JobChoice, is_forced: bool, is_dry: bool) -> int:
    """Let these jobs begin as if they had never been held, or all held jobs for which the conditions hold."""
    return change_jobs(
        choice, _RELEASE, lambda ids: ChangeJobs(ids, TermsChange(release=True)), is_forced=is_forced, is_dry=is_dry
    )


# `gnt-job modify`: change terms of queued jobs, what they wait for, and the time and tries of their commands.
#
# Source: DESIGN section 16; everyday.md j.


_MODIFY: Final = JobAction("modify", NOT_BEGUN)
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
@click.option(
    "--no-after", "without_after", type=JOB_IDS, multiple=True, help="Remove the dependency on this job; repeatable."
)
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
    after: AfterJobs,
    without_after: Sequence[Named],
    choice: JobChoice,
    is_forced: bool,
    is_dry: bool,
) -> int:
    """Change these jobs, or all queued jobs for which the conditions hold; what is not named stays.

    Of a job that has begun only the priority can be changed. --timeout and --retries are for jobs of one command,
    --at-most is for jobs of a batch: name all of them, as each job has it by itself. A job can wait only for jobs that
    came before it.
    """
    change = TermsChange(
        name=name,
        labels=dict(labels),
        without_labels=tuple(without),
        begin_at=begin,
        priority=None if priority is None else SUBMIT_PRIORITIES[priority],
        uses={use.key: use.count for use in uses},
        without_uses=tuple(without_uses),
        timeout=timeout,
        retries=retries,
        at_most=at_most,
        after=tuple(
            structure({"job_id": job_id, "states": states}, AfterJob)
            for job_id, states in read_dependencies(after, None)
        ),
        without_after=tuple(JobId(each) for named in without_after for each in ids_of(named, None)),
    )
    if change == TermsChange():
        raise click.UsageError(
            "nothing to change; for example --name NAME, --begin TIME, --priority low or --timeout 2h"
        )
    return change_jobs(choice, _MODIFY, lambda ids: ChangeJobs(ids, change), is_forced=is_forced, is_dry=is_dry)


# `gnt-job change-priority`: make jobs more or less urgent.
#
# Source: cli.md 2, "change-priority"; luxid.md 2.5.


_CHANGE_PRIORITY: Final = JobAction("change the priority of", UNFINISHED)


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
def change_priority(priority: str, choice: JobChoice, is_forced: bool, is_dry: bool) -> int:
    """Give another priority to these jobs, or to all unfinished jobs for which the conditions hold."""
    change = TermsChange(priority=SUBMIT_PRIORITIES[priority])
    return change_jobs(
        choice, _CHANGE_PRIORITY, lambda ids: ChangeJobs(ids, change), is_forced=is_forced, is_dry=is_dry
    )


# `gnt-job archive`: move ended jobs to the archive.
#
# Source: cli.md 2, "archive"; luxid.md 2.6.


_ARCHIVE: Final = JobAction("archive", ENDED)
# refusals that are about one job, and keep no other from the archive
_OF_ONE: Final = (NotFound.code, Denied.code, Conflict.code)


@click.command(
    "archive", cls=Command, examples=("gnt-job archive 27490 27491", "gnt-job archive --where 'status=success' --force")
)
@selection_options
def archive(choice: JobChoice, is_forced: bool, is_dry: bool) -> int:
    """Archive these jobs, or all ended jobs for which the conditions hold.

    Archived jobs can still be listed by their ids, and with --archived.
    """
    job_ids = select_jobs(choice, _ARCHIVE, is_forced=is_forced, is_dry=is_dry)
    with open_luxid() as client:
        answers = [_archive(client, JobId(job_id)) for job_id in job_ids]
    if wants_json():
        say_json(answers)
    refused = [job_id for job_id, is_done in zip(job_ids, answers, strict=True) if is_done is False]
    for row in jobs_now(refused, ("id", "status", "archived")) if refused else ():
        complain(_why_not(row["id"], row["status"], bool(row["archived"])))
    return DONE if all(answers) else FAILED


def _archive(client: Luxid, job_id: JobId) -> bool | None:
    """Return whether the job is archived now; None: luxid refused, and the reason has been told."""
    try:
        return client.call(ArchiveJob(job_id))
    except RemoteError as error:
        if error.code not in _OF_ONE:
            raise
        complain(error.message if str(job_id) in error.message else f"job {job_id}: {error.message}")
        return None


def _why_not(job_id: int, status: str | None, is_archived: bool) -> str:
    if status is None:
        return no_such_job(job_id)
    if is_archived:
        return f"job {job_id} is already archived; 'gnt-job info {job_id}' shows it"
    return (
        f"job {job_id} is {status}; only a job that has ended can be archived, 'gnt-job wait {job_id}' waits for that"
    )


# `gnt-job autoarchive`: archive the jobs that ended long ago.
#
# Source: cli.md 2, "autoarchive"; luxid.md 1.5, 2.6.


# seconds that luxid may take; it must reply before the client gives up
_TIMEOUT_S: Final = 89


@click.command("autoarchive", cls=Command, examples=("gnt-job autoarchive 7d", "gnt-job autoarchive all"))
@click.argument("age", metavar="AGE|all")
def autoarchive(age: str) -> int:
    """Archive the jobs that ended more than AGE ago: 600, 30m, 12h, 7d, 2w; or all ended jobs."""
    seconds = -1 if age == "all" else int(DURATION.convert(age, None, click.get_current_context()))
    answer = ask_luxid(AutoArchiveJobs(seconds, _TIMEOUT_S))
    say_result(answer, f"Archived {answer.archived_count} jobs, {answer.unchecked_count} unchecked left")
    return DONE
