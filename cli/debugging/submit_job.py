"""`gnt-debug submit-job`: jobs from files, one from each.

Source: cli.md 4, "submit-job".
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cli.commands import Command
from cli.jobs.submit import read_jobs
from cli.submission import Wishes, submit_jobs, submit_options, with_wishes


@click.command("submit-job", cls=Command, examples=("gnt-debug submit-job first.json second.json",))
@click.option("--op-repeat", type=click.IntRange(min=1), default=1, help="Repeat the opcodes inside each job.")
@click.option("--job-repeat", type=click.IntRange(min=1), default=1, help="Submit each job so many times.")
@submit_options
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False, exists=True, path_type=Path)
)
def submit_job(files: Sequence[Path], op_repeat: int, job_repeat: int, **options: Any) -> int:
    """Submit the jobs in these files, all at once, and print their ids."""
    wishes = Wishes(**options)
    jobs = [job for file in files for job in read_jobs(file.read_bytes(), str(file))]
    repeated = [job * op_repeat for job in jobs for _ in range(job_repeat)]
    return submit_jobs([[with_wishes(op, wishes, "submit-job") for op in job] for job in repeated], wishes)
