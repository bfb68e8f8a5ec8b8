"""`gnt-job submit`: submit jobs from a file, a plan or opcodes, in YAML or JSON."""

import sys
from pathlib import Path

import click

from cli.commands import WaitingCommand
from cli.exitcodes import DONE
from cli.screen import say
from cli.submitting.options import SubmissionOptions, job_options, job_with_options
from cli.submitting.submission import submit_jobs
from common.errors import InvalidRequest, RemoteError
from protocol.plans.documents import read_document
from protocol.plans.jobs import JobPlan, read_plan

_STANDARD_INPUT = "-"


@click.command(
    "submit",
    cls=WaitingCommand,
    examples=(
        "gnt-job submit job.json",
        "gnt-job submit --name nightly --begin 'tomorrow 02:00' plan.yaml",
        """echo '[{"OP_ID": "OP_RUN_COMMAND", "argv": ["uname", "-a"]}]' | gnt-job submit --wait -""",
        """echo '[[{...}], [{..., "depends": [[-1, ["success"]]]}]]' | gnt-job submit -""",
        "gnt-job submit --schema > plan.schema.json",
    ),
)
@click.option("--schema", "wants_schema", is_flag=True, help="Print the JSON Schema of a plan, and submit nothing.")
@click.argument(
    "file", metavar="FILE|-", required=False, type=click.Path(readable=False, allow_dash=True, path_type=Path)
)
@job_options
def submit(file: Path | None, wants_schema: bool, submission: SubmissionOptions) -> int:
    """Submit the jobs in FILE, or on standard input (-), and print their ids.

    FILE is YAML or JSON. It holds one opcode, one job (a list of opcodes), several jobs (a list of such lists, which
    may depend on one another by relative ids), or a plan:

    \b
    defaults: {labels: {team: web}, retries: 2}
    jobs:
      - name: build
        run: [make, -j4]
        locks: node/web1
      - name: deploy
        after: build              # or {build: failure}, [build, 17]
        shell: ./deploy && ./check

    The keys of a job are told by --schema. The options here are for all jobs of the file.
    """
    if wants_schema:
        return _print_schema()
    if file is None:
        raise click.UsageError("missing argument 'FILE'; '-' is standard input")
    plan = _read(file)
    jobs = [job_with_options(job, submission, "submit") for job in plan.jobs]
    try:
        return submit_jobs(jobs, submission, located=plan.located)
    except RemoteError as error:
        # luxid names an opcode by its place in the submission
        if (message := plan.located(error.message)) != error.message:
            raise InvalidRequest(message) from error
        raise


def _print_schema() -> int:
    import json

    from protocol.plans.jobs import plan_schema

    say(json.dumps(plan_schema(), indent=2))
    return DONE


def _read(file: Path) -> JobPlan:
    if str(file) == _STANDARD_INPUT:
        return read_plan(read_document(_read_input(), "standard input"))
    return read_plan(read_document(file.read_bytes(), str(file)))


def _read_input() -> bytes:
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed; name a file, or pipe the jobs in")
    return sys.stdin.buffer.read()
