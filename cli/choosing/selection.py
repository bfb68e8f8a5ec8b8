"""Choose the jobs that a verb changes: by ids, or by conditions and after a confirmation.

Source: cli.md 2, "cancel, change-priority".
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from cli.user import with_own_name
from common.ids import JobId
from common.queue.jobs import FINAL_NAMES
from common.words.fields import Row
from common.words.filters.filtertext import Expression
from common.words.filters.jobfilter import statuses_filter
from protocol.luxi.jobs import Done
from protocol.messages import Request

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
    # --archived alone only widens the choice: it would be all jobs
    if not (choice.job_ids or choice.conditions or choice.statuses):
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


def call_in_parts(
    job_ids: Sequence[int], request: Callable[[tuple[JobId, ...]], Request[tuple[Done, ...]]]
) -> list[Done]:
    """Call luxid for these jobs: once, or for very many a few times. Raises: as `Luxid.call`."""
    answers: list[Done] = []
    with open_luxid() as client:
        for start in range(0, len(job_ids), _JOBS_AT_ONCE):
            part = tuple(JobId(job_id) for job_id in job_ids[start : start + _JOBS_AT_ONCE])
            done: tuple[Done, ...] = client.call(request(part), timeout_s=_CALL_S)
            answers += done
    return answers


def tell_answers(job_ids: Sequence[int], answers: Sequence[Done], *, is_json: bool) -> int:
    """Show what luxid did with each job, of very many a line for all alike; return one exit code for all."""
    if is_json:
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
        elif not is_json:
            say(line)
    return DONE if all(answer.is_done for answer in answers) else FAILED


def _line(job_id: int, answer: Done) -> str:
    if answer.is_done or str(job_id) in answer.message:
        return answer.message
    return f"job {job_id}: {answer.message}"


def _summed(pairs: Sequence[tuple[int, Done]]) -> Iterator[tuple[bool, str]]:
    """A line for all jobs of which the same is told, but for their ids."""
    alike: dict[tuple[bool, str], list[tuple[int, Done]]] = defaultdict(list)
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
