"""`gnt-job rerun`: submit jobs again that have ended."""

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import click

from cli.choosing.jobids import ids_argument
from cli.choosing.jobs import named_jobs, naming_options
from cli.commands import WaitingCommand
from cli.connection import Luxid, open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.options import gathered
from cli.query import filter_jobs, query_jobs
from cli.screen import remark, say, say_json
from cli.submitting.options import PRIORITIES, WAIT_OPTIONS, SubmissionOptions, job_with_options
from cli.submitting.submission import submit_jobs
from common.errors import PrerequisiteError
from common.opcodes.base import summary
from common.opcodes.registry import parse_opcode
from common.printable import printable
from common.queue.reasons import new_batch_id
from common.queue.reruns import (
    MOST_DEPENDENTS,
    REACH,
    OldJob,
    Successor,
    batches_of,
    chosen,
    dependents_filters,
    outside,
    successors,
    with_dependents,
)
from common.words.fields import JobRow
from common.words.outcome import no_such_job
from protocol.luxi.jobs import NewJob

_FIELDS: Final = ("id", "status", "ops", "opexec", "opstatus")


@click.command(
    "rerun",
    cls=WaitingCommand,
    examples=(
        "gnt-job rerun 27491",
        "gnt-job rerun --failed-only 27490 27491 27492",
        "gnt-job rerun --batch b5f2c8a10b4d --failed-only --dry-run",
        "gnt-job rerun --with-dependents 27491",
        "gnt-job rerun --from-failed 27491",
    ),
)
@click.option("--failed-only", is_flag=True, help="Leave out those that succeeded, or have not ended.")
@click.option(
    "--with-dependents",
    "has_dependents",
    is_flag=True,
    help="Those that depend on them, too, directly or through others; at most "
    f"{MOST_DEPENDENTS:,}. They depend on the new jobs as before on the old ones. Archived jobs are looked at up to "
    f"{REACH:,} ids after the last one named.",
)
@click.option(
    "--from-failed",
    is_flag=True,
    help="Leave out the opcodes before the one that failed: a new job begins with that one.",
)
@naming_options
@gathered(
    "submission",
    partial(SubmissionOptions, ends_as_command=True),
    click.option("--priority", type=click.Choice(PRIORITIES), help="How urgent; as before if left out."),
    click.option("--reason", metavar="TEXT", help="The reason; kept in the reason trail."),
    click.option("--dry-run", "is_preview", is_flag=True, help="Show which jobs would run again, and submit nothing."),
    click.option("--wait", "is_waiting", is_flag=True, help="Follow to the end: output, log, exit code."),
    *WAIT_OPTIONS,
)
@ids_argument(is_required=False)
def rerun(
    job_ids: Sequence[int],
    failed_only: bool,
    has_dependents: bool,
    from_failed: bool,
    where: str | None,
    batches: Sequence[str],
    submission: SubmissionOptions,
) -> int:
    """Run jobs again that have ended, each as a new job with the same opcodes; print the new ids.

    A new job has the name, labels, resources and limits of its old one, and the label 'rerun-of' with its id. If it
    depended on another of these jobs it depends on that one's successor; dependencies that are met are left out.
    """
    named = named_jobs(job_ids, where, batches)
    with open_luxid() as client:
        if has_dependents:
            named = _with_dependents(client, named)
        made = _made(client, chosen(_read(client, named), failed_only=failed_only), from_failed=from_failed)
    if not made:
        remark("none of these jobs has failed; nothing to do")
    if submission.is_preview or not made:
        return _tell_dry(made)
    return submit_jobs(
        [job_with_options(NewJob(tuple(each.ops)), submission, "rerun") for each in made],
        submission,
        elements=[{"rerun-of": str(each.of)} for each in made],
    )


def _with_dependents(client: Luxid, job_ids: Sequence[int]) -> list[int]:
    """Raises: Conflict: too many jobs depend on these."""
    found = [row for fields, condition in dependents_filters(job_ids) for row in filter_jobs(client, condition, fields)]
    return with_dependents(job_ids, {row["id"]: row["dependencies"] for row in found})


def _made(client: Luxid, jobs: Sequence[OldJob], *, from_failed: bool) -> list[Successor]:
    rows = query_jobs(client, ids, ("id", "status")) if (ids := outside(jobs)) else []
    states = {row["id"]: row["status"] for row in rows if row["status"] is not None}
    new_ids = {old: new_batch_id(os.urandom(6)) for old in batches_of(jobs)}
    return successors(jobs, states, new_ids, time.time_ns(), from_failed=from_failed)


def _read(client: Luxid, job_ids: Sequence[int]) -> list[OldJob]:
    """Raises: PrerequisiteError: one of them does not exist."""
    rows = query_jobs(client, job_ids, _FIELDS)
    for row in rows:
        if row["status"] is None:
            raise PrerequisiteError(no_such_job(row["id"]), "unknown_entity")
    return [_old_job(row) for row in rows]


def _old_job(row: JobRow) -> OldJob:
    executed = [stamp is not None for stamp in row["opexec"] or ()]
    return OldJob(row["id"], str(row["status"]), row["ops"] or (), executed, row["opstatus"] or ())


def _tell_dry(made: Sequence[Successor]) -> int:
    if wants_json():
        say_json([{"id": each.of, "ops": each.ops, "left_out": each.left_out} for each in made])
    else:
        for each in made:
            begin = f" from opcode {each.left_out + 1} on" if each.left_out else ""
            words = ", ".join(summary(parse_opcode(op)) for op in each.ops)
            say(printable(f"job {each.of} would run again{begin}: {words}"))
    return DONE
