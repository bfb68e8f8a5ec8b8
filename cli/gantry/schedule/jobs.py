"""The job of a schedule: from the command line, or from a plan file."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypedDict

import click

from cli.choosing.commandargs import SIZE, VARIABLE, check_text
from cli.choosing.lockargs import LOCK, LockWish, lock_modes
from cli.durations import POSITIVE_DURATION
from cli.options import F, with_options
from cli.plans.documents import read_document
from cli.plans.planjobs import read_plan
from cli.remote.remoteoptions import is_remote
from cli.submitting.termargs import LABEL, USE
from cli.submitting.wishes import Wishes, job_with_wishes
from common.errors import InvalidRequest
from common.queue.terms import Use
from protocol.luxi.submission import JobInput, OpInput

# options for the command alone: a plan says these things itself
_OF_COMMAND: Final = {
    "locks": "--lock",
    "node": "--node",
    "timeout": "--timeout",
    "cwd": "--cwd",
    "env": "--env",
    "shell": "--shell",
    "user": "--user",
    "memory": "--memory",
}


class JobOptions(TypedDict):
    """What `job_options` pass to a verb."""

    plan: Path | None
    locks: Sequence[LockWish]
    node: str | None
    timeout: float | None
    cwd: Path | None
    env: Sequence[tuple[str, str]]
    shell: bool
    user: str | None
    memory: int | None
    priority: str | None
    reason: str | None
    job_labels: Sequence[tuple[str, str]]
    uses: Sequence[Use]


def job_options(function: F) -> F:
    """The options of a schedule's command; `--plan` for any other job."""
    return with_options(
        function,
        click.option(
            "--plan",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The job is that of this file, as for 'gnt-job submit', in place of a command.",
        ),
        click.option(
            "--lock", "locks", type=LOCK, multiple=True, help="Hold this lock, NAME[:shared|exclusive]; repeatable."
        ),
        click.option("--node", metavar="NAME", help="Run the command on this node."),
        click.option("--timeout", type=POSITIVE_DURATION, help="End the command after this time: 90s, 5m, 2h."),
        click.option(
            "--cwd",
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            help="Run it there (/).",
        ),
        click.option("--env", type=VARIABLE, multiple=True, help="Set a variable, NAME=VALUE; repeatable."),
        click.option("--shell", is_flag=True, help="Join the words by blanks and give them to /bin/sh."),
        click.option("--user", metavar="NAME", help="Run it as this user; needs a launcher, or daemons of root."),
        click.option("--memory", type=SIZE, help="Memory limit of all its processes together: 512M, 2G."),
        click.option("--label", "job_labels", type=LABEL, multiple=True, help="Label of its jobs, team=web."),
        click.option("--use", "uses", type=USE, multiple=True, help="Units that its jobs take, licences=2."),
        click.option("--priority", type=click.Choice(["low", "normal", "high"]), help="Of its jobs."),
        click.option("--reason", metavar="TEXT", help="Why; stands in the reason trail, and may name a rate limit."),
    )


def read_job(words: Sequence[str], options: JobOptions) -> JobInput | None:
    """The job of the command, or of the plan; None: neither is given.

    Raises:
        click.UsageError: both are given, or options of a command with the plan.
        InvalidRequest: the plan is none, or of several jobs.
    """
    plan = options["plan"]
    if plan is None:
        return _with_wishes([_command(words, options)], options) if words else None
    if words:
        raise click.UsageError("--plan and a command exclude each other; give one of them")
    given = next((option for name, option in _OF_COMMAND.items() if options[name]), None)  # type: ignore[literal-required]
    if given is not None:
        raise click.UsageError(f"{given} is for a command, and would be lost with --plan; write it into the plan")
    jobs = read_plan(read_document(plan.read_bytes(), str(plan))).jobs
    if len(jobs) != 1:
        raise InvalidRequest(f"{plan}: a schedule has one job, and the file holds {len(jobs)}")
    return _with_wishes(jobs[0], options)


def _command(words: Sequence[str], options: JobOptions) -> dict[str, object]:
    check_text(*words, *(text for variable in options["env"] for text in variable), str(options["cwd"]))
    op: dict[str, object] = {
        "OP_ID": "OP_RUN_COMMAND",
        "argv": list(words),
        # not the folder of whoever adds the schedule: it is there for years
        "cwd": _absolute(options["cwd"], options["node"]),
        "shell": options["shell"] or None,
        "env": dict(options["env"]) or None,
        "locks": lock_modes(options["locks"]) or None,
        "node": options["node"],
        "timeout": options["timeout"],
        "user": options["user"],
        "memory": options["memory"],
    }
    return {key: value for key, value in op.items() if value is not None}


def _with_wishes(ops: Sequence[OpInput], options: JobOptions) -> JobInput:
    wishes = Wishes(
        options["priority"],
        options["reason"],
        is_waiting=False,
        is_ganeti_form=False,
        prints_ids=False,
        job_labels=options["job_labels"],
        uses=options["uses"],
        program="gantry",
    )
    return tuple(job_with_wishes(ops, wishes, "schedule"))


def _absolute(cwd: Path | None, node: str | None) -> str | None:
    if cwd is None:
        return None
    if (is_remote() or node) and not cwd.is_absolute():
        where = "the node" if node else "the other machine"
        raise click.UsageError(f"--cwd '{cwd}' is on {where}; write a path that begins with /")
    return os.path.abspath(cwd)
