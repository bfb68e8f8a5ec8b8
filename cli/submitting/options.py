"""The options that all verbs have which submit jobs, and what they write into the opcodes."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs
import click

from cli.choosing.filtering import complete_label
from cli.connection import user_name
from cli.options import DURATION, POSITIVE_DURATION, F, gathered
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
    priority: str | None = None
    reason: str | None = None
    # whether to follow the jobs to their end
    is_waiting: bool = False
    # whether to print the ids on standard error in Ganeti's form (`--submit`)
    is_ganeti_form: bool = False
    # whether to print the bare ids first on standard output
    prints_ids: bool = False
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


def job_with_options(job: NewJob, options: SubmissionOptions, command: str) -> list[OpInput]:
    """The job with the chosen priority and terms, and with its submitter at the end of the reason trails.

    The trace is that of the environment, if there is one.

    Raises: InvalidRequest: a term of the job breaks a rule, or it gets too many of them.
    """
    now_ns = time.time_ns()
    wanted = attrs.evolve(
        job,
        ops=tuple(_with_origin(op, options, command, now_ns) for op in job.ops),
        name=options.job_name or job.name,
        labels={**job.labels, **dict(options.job_labels)},
        begin_at=job.begin_at if options.begin_at is None else options.begin_at,
        hold=options.reason or "" if options.is_held else job.hold,
        uses={**job.uses, **{use.key: use.count for use in options.uses}},
    )
    checked(wanted.terms())
    return list(wanted.to_input(now_ns, trace_text([os.environ.get(VARIABLE, "")])))


def _with_origin(op: OpInput, options: SubmissionOptions, command: str, now_ns: int) -> OpInput:
    entries = (submitter_entry(user_name(), now_ns), *user_trail(options.reason, options.program, command, now_ns))
    trail = [entry.to_wire() for entry in entries]
    reasons = op.get("reason") or []
    changed = {**op, "reason": [*reasons, *trail] if isinstance(reasons, list) else reasons}
    if options.is_dry:
        changed["dry_run"] = True
    if options.priority is not None:
        changed["priority"] = SUBMIT_PRIORITIES[options.priority]
    return changed


# The options that all verbs have which submit jobs, and those of the verbs that submit commands and plans.
#
# Source: cli.md 1.2; DESIGN section 16.


PRIORITIES: Final = tuple(SUBMIT_PRIORITIES)


def _submit_options(dry_run: Callable[[F], F]) -> Sequence[Callable[[F], F]]:
    return (
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
        dry_run,
        click.option("--wait", "is_waiting", is_flag=True, help="Follow to the end: output, log, exit code."),
        click.option(
            "--submit",
            "is_ganeti_form",
            is_flag=True,
            help="Print 'JobID: N' on standard error, and do not wait.",
        ),
        click.option("--print-jobid", "prints_ids", is_flag=True, help="Print the id first, also with --wait."),
    )


# `--priority`, `--reason`, `--dry-run`, `--wait` and its like, `--name`, `--label` and `--key`: a verb gets its
# `submission`
submit_options: Final = gathered(
    "submission",
    SubmissionOptions,
    *_submit_options(
        click.option("--dry-run", "is_dry", is_flag=True, help="Let the opcodes check all, and change nothing.")
    ),
)
# `--wait-timeout` and `--raw`, for verbs that end with their command's exit code
WAIT_OPTIONS: Final = (
    click.option(
        "--wait-timeout",
        "wait_s",
        type=POSITIVE_DURATION,
        help="With --wait: wait no longer; the job goes on.",
    ),
    raw_option,
)
# the same for verbs that submit what the user has made: `--begin`, `--hold` and `--use` besides, and `--dry-run`
# submits nothing
job_options: Final = gathered(
    "submission",
    partial(SubmissionOptions, ends_as_command=True),
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
    *_submit_options(
        click.option(
            "--dry-run",
            "is_preview",
            is_flag=True,
            help="Read and check all, say what would be submitted, and submit nothing.",
        )
    ),
    *WAIT_OPTIONS,
    click.option(
        "--exit",
        "takes_highest",
        type=click.Choice(["any", "max"]),
        default="any",
        callback=lambda _, __, value: value == "max",
        help="Exit code of several jobs with --wait: 1 if any of them failed (default), or the highest of theirs.",
    ),
)


def retry_parameters(
    *, retry_on: Sequence[str], fail_on: Sequence[str], is_rerunnable: bool, **others: object
) -> dict[str, object]:
    """The parameters of OP_RUN_COMMAND; None where nothing is said.

    Raises: click.UsageError: a word names no failure.
    """
    return {
        **others,
        "retry_on": _failures("--retry-on", retry_on),
        "fail_on": _failures("--fail-on", fail_on),
        "rerunnable": is_rerunnable or None,
    }


# `--retries` and how, `--retry-on`, `--fail-on` and `--rerunnable`: a verb gets `retry`, parameters of the opcode
retry_options: Final = gathered(
    "retry",
    retry_parameters,
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
