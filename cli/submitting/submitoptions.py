"""The options that all verbs have which submit jobs, and those of the verbs that submit commands and plans.

Source: cli.md 1.2; DESIGN section 16.
"""

from collections.abc import Sequence
from typing import Final, TypedDict

import click

from cli.choosing.filtercompletion import complete_label
from cli.durations import DURATION, POSITIVE_DURATION
from cli.live.outputscreen import raw_option
from cli.options import F, with_options
from cli.submitting.termargs import JOB_NAME, LABEL, USE, InstantType
from cli.submitting.wishes import Wishes
from common.errors import InvalidRequest
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.terms import Use

PRIORITIES: Final = tuple(SUBMIT_PRIORITIES)


class SubmitOptions(TypedDict):
    """What `submit_options` pass to a verb."""

    priority: str | None
    reason: str | None
    is_dry: bool
    is_waiting: bool
    is_ganeti_form: bool
    prints_ids: bool
    job_name: str | None
    job_labels: Sequence[tuple[str, str]]
    key: str | None


class FollowOptions(SubmitOptions):
    """What `submit_options`, `later_options`, `wait_options` and `exit_option` pass to a verb."""

    begin_at: float | None
    is_held: bool
    uses: Sequence[Use]
    wait_s: float | None
    is_raw: bool
    takes_highest: bool


class RetryOptions(TypedDict):
    """What `retry_options` pass to a verb: parameters of OP_RUN_COMMAND."""

    retries: int | None
    retry_delay: float | None
    retry_factor: float | None
    retry_max: float | None
    retry_on: Sequence[str]
    fail_on: Sequence[str]
    is_rerunnable: bool


def submit_options(function: F) -> F:
    """`--priority`, `--reason`, `--dry-run`, `--wait` and its like, `--name`, `--label` and `--key`."""
    return _submit_options(function, "Let the opcodes check all, and change nothing.")


def job_options(function: F) -> F:
    """As `submit_options`, for verbs that submit what the user has made: `--dry-run` submits nothing."""
    return _submit_options(function, "Read and check all, say what would be submitted, and submit nothing.")


def _submit_options(function: F, dry_run: str) -> F:
    return with_options(
        function,
        click.option("--priority", type=click.Choice(PRIORITIES), help="How urgent; normal if left out."),
        click.option("--reason", metavar="TEXT", help="Why; stands in the reason trail, and may name a rate limit."),
        click.option("--name", "job_name", type=JOB_NAME, help="Name of the job, which lists show; many may have it."),
        click.option(
            "--label",
            "job_labels",
            type=LABEL,
            multiple=True,
            shell_complete=complete_label,
            help="Label of the job, team=web; repeatable.",
        ),
        click.option(
            "--key",
            metavar="KEY",
            help="Submit this once: sent again by you under this key, it is not submitted, and the first job's id "
            "is printed. Keys are kept for a day, and until the jobs have ended.",
        ),
        click.option("--dry-run", "is_dry", is_flag=True, help=dry_run),
        click.option("--wait", "is_waiting", is_flag=True, help="Follow to the end: output, log, exit code."),
        click.option(
            "--submit",
            "is_ganeti_form",
            is_flag=True,
            help="Print 'JobID: N' on standard error, and do not wait.",
        ),
        click.option("--print-jobid", "prints_ids", is_flag=True, help="Print the id first, also with --wait."),
    )


def later_options(function: F) -> F:
    """`--begin`, `--hold` and `--use`."""
    return with_options(
        function,
        click.option(
            "--begin",
            "begin_at",
            type=InstantType(),
            help="Do not begin before: 'tomorrow 02:00', 'in 3h', 'mon 9:30', '2026-11-21 02:00', local time.",
        ),
        click.option("--hold", "is_held", is_flag=True, help="Do not begin before 'gnt-job release ID'."),
        click.option(
            "--use",
            "uses",
            type=USE,
            multiple=True,
            help="Take units of a resource while it runs, [NODE:]NAME=COUNT: licences=2, web1:memory=4G; repeatable.",
        ),
    )


def retry_options(function: F) -> F:
    """`--retries` and how, `--retry-on`, `--fail-on` and `--rerunnable`."""
    return with_options(
        function,
        click.option("--retries", type=click.IntRange(0), metavar="N", help="After a failure run it again, N times."),
        click.option("--retry-delay", type=DURATION, help="Pause before the first of them: 30s."),
        click.option("--retry-factor", type=click.FloatRange(1), help="Each pause is so many times as long: 2."),
        click.option("--retry-max", type=POSITIVE_DURATION, help="No pause is longer: 10m."),
        click.option(
            "--retry-on",
            metavar="FAILURE,...",
            multiple=True,
            help="Only after these failures: exit=75,timeout; repeatable. Any, if left out.",
        ),
        click.option(
            "--fail-on", metavar="FAILURE,...", multiple=True, help="Never after these: exit=2; it wins; repeatable."
        ),
        click.option(
            "--rerunnable",
            "is_rerunnable",
            is_flag=True,
            help="It may run twice: if it was lost, with its node or its process, it runs again.",
        ),
    )


def retry_parameters(options: RetryOptions) -> dict[str, object]:
    """The parameters of the opcode; None where nothing is said.

    Raises: click.UsageError: a word names no failure.
    """
    return {
        "retries": options["retries"],
        "retry_delay": options["retry_delay"],
        "retry_factor": options["retry_factor"],
        "retry_max": options["retry_max"],
        "retry_on": _failures("--retry-on", options["retry_on"]),
        "fail_on": _failures("--fail-on", options["fail_on"]),
        "rerunnable": options["is_rerunnable"] or None,
    }


def _failures(option: str, given: Sequence[str]) -> list[str] | None:
    found = [word for words in given for word in words.split(",") if word]
    if found:
        # imported late: few commands name failures
        from common.commands.retryrules import read_rules

        try:
            read_rules(found)
        except InvalidRequest as error:
            raise click.UsageError(f"{option}: {error.message}") from None
    return found or None


def wait_options(function: F) -> F:
    """`--wait-timeout` and `--raw`, for verbs that end with their command's exit code."""
    text = "With --wait: wait no longer; the job goes on."
    return click.option("--wait-timeout", "wait_s", type=POSITIVE_DURATION, help=text)(raw_option(function))


def exit_option(function: F) -> F:
    """`--exit max`."""
    return click.option(
        "--exit",
        "takes_highest",
        type=click.Choice(["any", "max"]),
        default="any",
        callback=lambda _, __, value: value == "max",
        help="Exit code of several jobs with --wait: 1 if any of them failed (default), or the highest of theirs.",
    )(function)


def wishes_of(options: FollowOptions) -> Wishes:
    """What the options tell of a submission of `job_options`, among those of a verb which has more options."""
    own = {name: value for name, value in options.items() if name in FollowOptions.__annotations__}
    is_preview = bool(own.pop("is_dry"))
    return Wishes(**own, is_preview=is_preview, ends_as_command=True)  # type: ignore[arg-type]  # names are the same
