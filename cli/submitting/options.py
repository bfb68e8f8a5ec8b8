"""The options that all verbs have which submit jobs, and what they write into the opcodes."""

import os
import time
from collections.abc import Sequence
from typing import Final, TypedDict, cast

import attrs
import click

from cli.choosing.filtering import complete_label
from cli.connection import user_name
from cli.options import DURATION, POSITIVE_DURATION, F, with_options
from cli.outputscreen import raw_option
from cli.submitting.arguments import JOB_NAME, LABEL, USE, InstantType
from common.errors import InvalidRequest
from common.queue.jobs import SUBMIT_PRIORITIES
from common.queue.reasons import submitter_entry, user_trail
from common.queue.terms import Use, checked
from common.tracecontext import VARIABLE, trace_text
from protocol.luxi.jobs import NewJob, OpInput

# What the common options of a submission say, written into the opcodes.
#
# Source: cli.md 1.2; DESIGN section 16.


@attrs.frozen
class SubmissionOptions:
    """The common options of a submission."""

    # priority by name; None: the opcode's own
    priority: str | None
    reason: str | None
    # whether to follow the jobs to their end
    is_waiting: bool
    # whether to print the ids on standard error in Ganeti's form (`--submit`)
    is_ganeti_form: bool
    # whether to print the bare ids first on standard output
    prints_ids: bool
    # whether the opcodes only check, and change nothing: their own parameter, as Ganeti's clients set it
    is_dry: bool = False
    # whether to submit nothing, and to say what would be submitted
    is_preview: bool = False
    # name of the jobs; None: as the submission itself has it
    job_name: str | None = None
    # labels of the jobs, added to those that the submission itself has
    job_labels: Sequence[tuple[str, str]] = ()
    # key of the submission, chosen by the user; None: none
    key: str | None = None
    # instant before which the jobs do not begin; None: as the submission itself has it
    begin_at: float | None = None
    # whether they are put on hold
    is_held: bool = False
    # resources that they use
    uses: Sequence[Use] = ()
    # whether to submit each job by a call of its own
    is_each: bool = False
    # seconds to wait at most; None: to the end
    wait_s: float | None = None
    # whether to show output with its control sequences, also on a terminal
    is_raw: bool = False
    # whether the exit code is the command's, when the job is waited for
    ends_as_command: bool = False
    # whether the exit code of several jobs is the highest of theirs; else 1 if one failed
    takes_highest: bool = False
    # name of the program in the reason trail
    program: str = "gnt-job"


def job_with_wishes(job: NewJob, wishes: SubmissionOptions, command: str) -> list[OpInput]:
    """The job with the chosen priority and terms, and with its submitter at the end of the reason trails.

    The trace is that of the environment, if there is one.

    Raises: InvalidRequest: a term of the job breaks a rule, or it gets too many of them.
    """
    now_ns = time.time_ns()
    wanted = attrs.evolve(
        job,
        ops=tuple(_with_origin(op, wishes, command, now_ns) for op in job.ops),
        name=wishes.job_name or job.name,
        labels={**job.labels, **dict(wishes.job_labels)},
        begin_at=job.begin_at if wishes.begin_at is None else wishes.begin_at,
        hold=wishes.reason or "" if wishes.is_held else job.hold,
        uses={**job.uses, **{use.key: use.count for use in wishes.uses}},
    )
    checked(wanted.terms())
    return list(wanted.to_input(now_ns, trace_text([os.environ.get(VARIABLE, "")])))


def _with_origin(op: OpInput, wishes: SubmissionOptions, command: str, now_ns: int) -> OpInput:
    entries = (submitter_entry(user_name(), now_ns), *user_trail(wishes.reason, wishes.program, command, now_ns))
    trail = [entry.to_wire() for entry in entries]
    reasons = op.get("reason") or []
    changed = {**op, "reason": [*reasons, *trail] if isinstance(reasons, list) else reasons}
    if wishes.is_dry:
        changed["dry_run"] = True
    if wishes.priority is not None:
        changed["priority"] = SUBMIT_PRIORITIES[wishes.priority]
    return changed


# The options that all verbs have which submit jobs, and those of the verbs that submit commands and plans.
#
# Source: cli.md 1.2; DESIGN section 16.


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


def submission_of(given: dict[str, object]) -> SubmitOptions:
    """Take what `submit_options` have passed from all that a verb was given; the others stay, as parameters."""
    return cast(SubmitOptions, {name: given.pop(name) for name in SubmitOptions.__annotations__})


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
        click.option(
            "--reason", metavar="TEXT", help="The reason; kept in the reason trail, and may name a rate limit."
        ),
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


def wishes_of(options: FollowOptions) -> SubmissionOptions:
    """What the options tell of a submission of `job_options`, among those of a verb which has more options."""
    own = {name: value for name, value in options.items() if name in FollowOptions.__annotations__}
    is_preview = bool(own.pop("is_dry"))
    return SubmissionOptions(**own, is_preview=is_preview, ends_as_command=True)  # type: ignore[arg-type]  # names are the same
