"""`gnt-debug submit-job`: jobs from files, one from each.

Source: cli.md 4, "submit-job".
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.live.followers import until_ended
from cli.outcomes import fetch_outcomes
from cli.plans.documents import read_document
from cli.plans.planjobs import read_plan
from cli.screen import remark, say, say_json, warn
from cli.submission import send_jobs, submit_jobs, taken, tell_refused
from cli.submitting.submitoptions import SubmitOptions, submit_options
from cli.submitting.wishes import Wishes, job_with_wishes
from protocol.luxi.submission import OpInput


@click.command(
    "submit-job",
    cls=Command,
    examples=(
        "gnt-debug submit-job first.json second.json",
        "gnt-debug submit-job --job-repeat 100 --timing-stats delay.json",
    ),
)
@click.option("-v", "--verbose", is_flag=True, help="Tell each step, and the ids.")
@click.option("--op-repeat", type=click.IntRange(min=1), default=1, help="Repeat the opcodes inside each job.")
@click.option("--job-repeat", type=click.IntRange(min=1), default=1, help="Submit each job N times.")
@click.option("--timing-stats", is_flag=True, help="Wait for the jobs, and print how long it took.")
@click.option("--each", "is_each", is_flag=True, help="Submit the jobs one by one, not all at once.")
@submit_options
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(readable=False, path_type=Path))
def submit_job(
    files: Sequence[Path],
    verbose: bool,
    op_repeat: int,
    job_repeat: int,
    timing_stats: bool,
    is_each: bool,
    **options: Unpack[SubmitOptions],
) -> int:
    """Submit the jobs in these files and print their ids."""
    wishes = Wishes(**options, program="gnt-debug", is_each=is_each)
    if is_each and wishes.key is not None:
        raise click.UsageError("--each submits several times, and --key names one submission; leave one of them out")
    jobs = [job for file in files for job in read_plan(read_document(file.read_bytes(), str(file))).jobs]
    repeated = [[*job] * op_repeat for job in jobs for _ in range(job_repeat)]
    submitted = [job_with_wishes(job, wishes, "submit-job") for job in repeated]
    if verbose:
        remark(f"submitting {len(submitted)} jobs with {sum(map(len, submitted))} opcodes")
    return _measure(submitted, wishes, verbose) if timing_stats else submit_jobs(submitted, wishes)


def _measure(jobs: Sequence[Sequence[OpInput]], wishes: Wishes, is_verbose: bool) -> int:
    """Submit, wait for all, and print counts and times in seconds; a failed job is reported, but is not an error."""
    begin = time.monotonic()
    with open_luxid() as client:
        answers = send_jobs(client, jobs, wishes).answers
        submitted = time.monotonic()
        ids = taken(answers)
        if is_verbose:
            remark(f"waiting for jobs {', '.join(map(str, ids))}")
        until_ended(ids)
        ended = time.monotonic()
        outcomes = fetch_outcomes(client, ids)
    stats = {
        "C:op": sum(map(len, jobs)),
        "C:job": len(jobs),
        "T:submit": round(submitted - begin, 6),
        "T:exec": round(ended - submitted, 6),
        "T:total": round(ended - begin, 6),
    }
    _tell_stats(stats)
    failed = [outcome.job_id for outcome in outcomes if not outcome.is_success]
    if failed:
        warn(f"{len(failed)} of {len(ids)} jobs did not succeed: {', '.join(map(str, failed))}")
    return max(FAILED if len(ids) < len(jobs) else DONE, tell_refused(answers))


def _tell_stats(stats: dict[str, float]) -> None:
    if wants_json():
        say_json(stats)
        return
    for name, value in stats.items():
        say(f"{name:<8} {value if isinstance(value, int) else f'{value:.6f}'}")
