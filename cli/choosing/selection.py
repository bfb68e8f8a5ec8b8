"""Choose the jobs that a verb changes: by ids, or by conditions and after a confirmation.

Source: cli.md 2, "cancel, change-priority".
"""

from collections.abc import Sequence
from typing import Final

import attrs
import click

from cli.choosing.jobchoice import JobChoice, choice_options
from cli.connection import open_luxid
from cli.exitcodes import DONE, FAILED, NOT_CONFIRMED
from cli.options import F, with_options
from cli.query import filter_jobs
from cli.screen import complain, confirm, remark, say, say_json
from cli.tables import JOB_FIELDS, job_table
from common.queue.jobs import FINAL_NAMES
from common.words.fields import Row
from common.words.filtertext import Expression
from common.words.jobfilter import statuses_filter
from protocol.luxi.jobs import Done

UNFINISHED: Final[Expression] = ["!", statuses_filter(FINAL_NAMES)]
ENDED: Final[Expression] = statuses_filter(FINAL_NAMES)


class NotConfirmed(click.exceptions.Exit):
    """The user did not confirm."""

    def __init__(self) -> None:
        super().__init__(NOT_CONFIRMED)


@attrs.frozen
class Action:
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
        click.option("--dry-run", "is_dry", is_flag=True, help="Only say how many and which."),
        choice_options,
    )


def select_jobs(choice: JobChoice, action: Action, *, is_forced: bool, is_dry: bool, is_json: bool) -> Sequence[int]:
    """Return the chosen jobs; jobs chosen by conditions are shown first, and the user confirms.

    Raises:
        UsageError: neither ids nor a condition.
        Exit: no job matches, or it was a dry run.
        NotConfirmed: the user declines, or cannot be asked.
    """
    if choice.is_plain and not choice.job_ids:
        raise click.UsageError("name jobs by their ids, or by a condition such as --pending or --where FILTER")
    if choice.is_plain and not is_dry:
        return choice.job_ids
    rows = _chosen(choice, action)
    if is_dry:
        _tell_dry_run(rows, action, is_json=is_json)
        raise click.exceptions.Exit(DONE)
    if not rows:
        if is_json:
            say_json([])
        complain(f"no job to {action.words} is like that; 'gnt-job list' shows all")
        raise click.exceptions.Exit(FAILED)
    if not is_forced:
        _ask(rows, action, is_json=is_json)
    return [row["id"] for row in rows]


def _chosen(choice: JobChoice, action: Action) -> list[Row]:
    with open_luxid() as client:
        fields = (*JOB_FIELDS, "archived") if choice.with_archived else JOB_FIELDS
        return filter_jobs(client, choice.expression(action.possible), fields)


def _tell_dry_run(rows: Sequence[Row], action: Action, *, is_json: bool) -> None:
    if is_json:
        say_json([row["id"] for row in rows])
        return
    for line in job_table(rows):
        say(line)
    remark(f"would {action.words} {_jobs(len(rows))}; nothing was changed")


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _ask(rows: Sequence[Row], action: Action, *, is_json: bool) -> None:
    for line in job_table(rows):
        remark(line)
    if not confirm(f"{action.words} {'this job' if len(rows) == 1 else f'these {len(rows)} jobs'}?"):
        if is_json:
            say_json([])
        remark(f"nothing was changed; to {action.words} them without this question add --force")
        raise NotConfirmed


def tell_answers(job_ids: Sequence[int], answers: Sequence[Done], *, is_json: bool) -> int:
    """Show what luxid did with each job; return one exit code for all."""
    if is_json:
        say_json(answers)
    for job_id, answer in zip(job_ids, answers, strict=True):
        if not answer.is_done:
            complain(answer.message if str(job_id) in answer.message else f"job {job_id}: {answer.message}")
        elif not is_json:
            say(answer.message)
    return DONE if all(answer.is_done for answer in answers) else FAILED
