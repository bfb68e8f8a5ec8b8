"""The job of a schedule, or one for each of several: from the command line, or from a plan file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from cli.choosing.commandargs import CPUS, SIZE, VARIABLE, check_text, read_standard_input
from cli.choosing.lockargs import LOCK, LockWish, lock_modes
from cli.durations import POSITIVE_DURATION
from cli.options import F, with_options
from cli.plans.documents import read_document
from cli.plans.planjobs import read_plan
from cli.remote.remoteoptions import is_remote
from cli.submitting.submitoptions import RetryOptions, retry_options, retry_parameters
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
    "cpus": "--cpus",
    "stdin_from": "--stdin",
    "stdin_text": "--stdin-text",
    "retries": "--retries",
    "retry_delay": "--retry-delay",
    "retry_factor": "--retry-factor",
    "retry_max": "--retry-max",
    "retry_on": "--retry-on",
    "fail_on": "--fail-on",
    "is_rerunnable": "--rerunnable",
}


class JobOptions(RetryOptions):
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
    cpus: float | None
    stdin_from: Path | None
    stdin_text: str | None
    priority: str | None
    reason: str | None
    job_labels: Sequence[tuple[str, str]]
    uses: Sequence[Use]


@attrs.frozen
class Element:
    """One of several schedules that are made of one command: what tells it from the others."""

    # by name
    values: Mapping[str, str]
    # place among them, from 1, and their number
    place: int
    size: int


def job_options(function: F) -> F:
    """The options of a schedule's command; `--plan` for any other job."""
    return with_options(
        retry_options(function),
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
        click.option("--cpus", type=CPUS, help="Limit of processors at once: 2, 0.5."),
        click.option(
            "--stdin",
            "stdin_from",
            metavar="FILE|-",
            type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
            help="Its input: FILE as it is when a run starts, or (-) all of standard input here, for each run.",
        ),
        click.option("--stdin-text", metavar="TEXT", help="Its input: this text."),
        click.option("--label", "job_labels", type=LABEL, multiple=True, help="Label of its jobs, team=web."),
        click.option("--use", "uses", type=USE, multiple=True, help="Units that its jobs take, licences=2."),
        click.option("--priority", type=click.Choice(["low", "normal", "high"]), help="Of its jobs."),
        click.option("--reason", metavar="TEXT", help="Why; stands in the reason trail, and may name a rate limit."),
    )


def read_job(words: Sequence[str], options: JobOptions, element: Element | None = None) -> JobInput | None:
    """The job of the command, or of the plan; None: neither is given.

    Args: element: values for which the command is, in place of their names; they are labels of its jobs, too.
    Raises:
        click.UsageError: both are given, or options of a command with the plan.
        InvalidRequest: the plan is none, or of several jobs.
    """
    plan = options["plan"]
    if plan is None:
        return _of_element(_command(words, options), options, element) if words else None
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
    stdin_from, stdin_text = options["stdin_from"], options["stdin_text"]
    if stdin_from is not None and stdin_text is not None:
        raise click.UsageError("--stdin and --stdin-text exclude each other; give one of them")
    if str(stdin_from) == "-":
        stdin_from, stdin_text = None, read_standard_input()
    given = (*words, *(text for variable in options["env"] for text in variable))
    check_text(*given, str(options["cwd"]), str(stdin_from))
    op: dict[str, object] = {
        "OP_ID": "OP_RUN_COMMAND",
        "argv": list(words),
        # not the folder of whoever adds the schedule: it is there for years
        "cwd": _absolute("--cwd", options["cwd"], options["node"]),
        "shell": options["shell"] or None,
        "env": dict(options["env"]) or None,
        "locks": lock_modes(options["locks"]) or None,
        "node": options["node"],
        "timeout": options["timeout"],
        "user": options["user"],
        "memory": options["memory"],
        "cpus": options["cpus"],
        "stdin_path": _absolute("--stdin", stdin_from, options["node"]),
        "stdin_text": stdin_text,
        **retry_parameters(options),
    }
    return {key: value for key, value in op.items() if value is not None}


def _of_element(op: OpInput, options: JobOptions, element: Element | None) -> JobInput:
    if element is None:
        return _with_wishes([op], options)
    # imported late: most schedules are one
    from cli.fleet.batching import for_values
    from cli.fleet.eachvalues import fill

    labels = [(key, fill(value, element.values)) for key, value in options["job_labels"]]
    return _with_wishes(
        [for_values(op, element.values, element.place, element.size)],
        {**options, "job_labels": [*element.values.items(), *labels]},
    )


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


def _absolute(option: str, path: Path | None, node: str | None) -> str | None:
    if path is None:
        return None
    if (is_remote() or node) and not path.is_absolute():
        where = "the node" if node else "the other machine"
        raise click.UsageError(f"{option} '{path}' is on {where}; write a path that begins with /")
    return os.path.abspath(path)
