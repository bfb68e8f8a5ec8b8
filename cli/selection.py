"""Choosing the jobs that a verb changes: by ids, or by a state and after a question.

Source: cli.md 2, "cancel, change-priority".
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from cli.query import JOB_ID, PENDING, jobs_now
from cli.run import DONE, FAILED, NOT_CONFIRMED
from cli.screen import complain, confirm, remark, say, say_json
from cli.tables import Column, Layout, render

F = TypeVar("F", bound=Callable[..., Any])


class NotConfirmed(click.exceptions.Exit):
    """The user did not confirm."""

    def __init__(self) -> None:
        super().__init__(NOT_CONFIRMED)


def selection_options(function: F) -> F:
    """Ids, or one of `--pending`, `--queued` and `--waiting`; `--force`."""
    options = (
        click.option(
            "-f", "--force", "is_forced", is_flag=True, help="Do not ask before changing jobs chosen by state."
        ),
        click.option("--pending", "statuses", flag_value=",".join(PENDING), help="All jobs that have not begun."),
        click.option("--queued", "statuses", flag_value="queued", help="All queued jobs."),
        click.option("--waiting", "statuses", flag_value="waiting", help="All jobs that wait for locks or other jobs."),
        click.argument("job_ids", metavar="[ID]...", nargs=-1, type=JOB_ID),
    )
    for option in reversed(options):
        function = option(function)
    return function


def select_jobs(job_ids: Sequence[int], statuses: str | None, *, is_forced: bool, action: str) -> Sequence[int]:
    """The jobs meant; those chosen by state are shown and the user is asked.

    Raises:
        UsageError: neither ids nor a state, or both, or no job is in that state.
        NotConfirmed: the user says no, or cannot be asked.
    """
    if bool(job_ids) == (statuses is not None):
        raise click.UsageError("name jobs by their ids, or by one of --pending, --queued and --waiting")
    if statuses is None:
        return list(dict.fromkeys(job_ids))
    rows = jobs_now(None, ("id", "status", "summary"), statuses.split(","))
    if not rows:
        complain(f"no job is {statuses.replace(',', ', or ')}; 'gnt-job list' shows all")
        raise click.exceptions.Exit(FAILED)
    if not is_forced:
        _ask(rows, action)
    return [row["id"] for row in rows]


_COLUMNS: Final = (Column("ID", is_number=True), Column("STATUS"), Column("SUMMARY"))


def _ask(rows: Sequence[Any], action: str) -> None:
    cells = [[str(row["id"]), row["status"], ",".join(row["summary"])] for row in rows]
    for line in render(_COLUMNS, cells, Layout()):
        remark(line)
    if not confirm(f"{action} these {len(rows)} jobs?"):
        remark(f"nothing was changed; to {action} them without this question add --force")
        raise NotConfirmed


def tell_answers(job_ids: Sequence[int], answers: Sequence[Sequence[Any]], *, is_json: bool) -> int:
    """Show luxid's `[done, message]` for each job; the exit code for all of them together."""
    if is_json:
        say_json(list(map(list, answers)))
    for job_id, (is_done, message) in zip(job_ids, answers, strict=True):
        if not is_done:
            complain(str(message) if str(job_id) in str(message) else f"job {job_id}: {message}")
        elif not is_json:
            say(str(message))
    return DONE if all(is_done for is_done, _ in answers) else FAILED
