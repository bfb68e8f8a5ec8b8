"""The verbs that define schedules: `gantry schedule add` and `modify`."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.schedules import ahead, ask, explained, info_lines, instant, view_json
from cli.options import DURATION, POSITIVE_DURATION, F, complete_schedule, gathered, with_options
from cli.remoteoptions import is_remote
from cli.screen import remark, say, say_json, say_result
from cli.submitting.arguments import LABEL, USE, lock_modes
from cli.submitting.batchoptions import (
    EACH,
    BatchOptions,
    BatchVariable,
    check_lock_marks,
    check_shell_words,
    elements_of,
    fill,
)
from cli.submitting.command import CommandOptions, command_options
from cli.submitting.options import PRIORITIES, SubmissionOptions, job_with_options, retry_options
from common.errors import InvalidRequest
from common.queue.terms import Use
from common.schedules.schedule import Missed, Overlap
from common.schedules.times import offset_of, read_words, zone_named
from protocol.luxi.jobs import JobInput, NewJob, OpInput
from protocol.luxi.queue import AddSchedule, ChangeSchedule, ScheduleRequest, ScheduleView
from protocol.plans.documents import read_document
from protocol.plans.jobs import read_plan

# The job of a schedule, or one for each of several: from the command line, or from a plan file.


@attrs.frozen
class JobOptions:
    """What is for the job of a schedule, be it a command or of a plan; and the plan."""

    plan: Path | None
    node: str | None
    job_labels: Sequence[tuple[str, str]]
    uses: Sequence[Use]
    priority: str | None
    reason: str | None


@attrs.frozen
class Element:
    """One of several schedules that are made of one command: what tells it from the others."""

    # by name
    values: Mapping[str, str]
    # place among them, from 1, and their number
    place: int
    size: int


@attrs.frozen
class ScheduledJobOptions:
    """All options of a schedule's job."""

    command: CommandOptions
    # parameters of the opcode
    retry: Mapping[str, object]
    job: JobOptions

    @property
    def of_command(self) -> Sequence[str]:
        """The options that are given and are for a command alone: a plan says these things itself."""
        given = {**attrs.asdict(self.command, recurse=False), "node": self.job.node, **self.retry}
        return [f"--{_NAMES.get(name, name).replace('_', '-')}" for name, value in given.items() if value]


# options whose values have other names
_NAMES: Final = {"locks": "lock", "stdin_from": "stdin"}


def job_options(function: F) -> F:
    """The options of a schedule's command; `--plan` for any other job: the verb gets `command`, `retry` and `job`."""
    return with_options(
        function,
        gathered(
            "job",
            JobOptions,
            click.option(
                "--plan",
                metavar="FILE",
                type=click.Path(dir_okay=False, path_type=Path),
                help="The job is that of this file, as for 'gnt-job submit', in place of a command.",
            ),
            click.option("--node", metavar="NAME", help="Run the command on this node."),
            click.option("--label", "job_labels", type=LABEL, multiple=True, help="Label of its jobs, team=web."),
            click.option("--use", "uses", type=USE, multiple=True, help="Units that its jobs take, licences=2."),
            click.option("--priority", type=click.Choice(PRIORITIES), help="Of its jobs."),
            click.option(
                "--reason", metavar="TEXT", help="The reason; kept in the reason trail, and may name a rate limit."
            ),
        ),
        command_options("/ if left out"),
        retry_options,
    )


def read_job(words: Sequence[str], options: ScheduledJobOptions, element: Element | None = None) -> JobInput | None:
    """The job of the command, or of the plan; None: neither is given.

    Args: element: values for which the command is, in place of their names; they are labels of its jobs, too.
    Raises:
        click.UsageError: both are given, or options of a command with the plan.
        InvalidRequest: the plan is none, or of several jobs.
    """
    plan = options.job.plan
    if plan is None:
        return _of_element(_command(words, options), options.job, element) if words else None
    if words:
        raise click.UsageError("--plan and a command exclude each other; give one of them")
    if given := options.of_command:
        raise click.UsageError(f"{given[0]} is for a command, and would be lost with --plan; write it into the plan")
    jobs = read_plan(read_document(plan.read_bytes(), str(plan))).jobs
    if len(jobs) != 1:
        raise InvalidRequest(f"{plan}: a schedule has one job, and the file holds {len(jobs)}")
    return _job_input(jobs[0], options.job)


def _command(words: Sequence[str], options: ScheduledJobOptions) -> dict[str, object]:
    node = options.job.node
    elsewhere = "the node" if node else "the other machine" if is_remote() else None
    op = {**options.command.parameters(words, elsewhere), "node": node, **options.retry}
    return {key: value for key, value in op.items() if value is not None}


def _of_element(op: OpInput, options: JobOptions, element: Element | None) -> JobInput:
    if element is None:
        return _job_input(NewJob((op,)), options)
    # imported late: most schedules are one
    from cli.submitting.batch import for_values

    labels = [(key, fill(value, element.values)) for key, value in options.job_labels]
    return _job_input(
        NewJob((for_values(op, element.values, element.place, element.size),)),
        attrs.evolve(options, job_labels=[*element.values.items(), *labels]),
    )


def _job_input(job: NewJob, options: JobOptions) -> JobInput:
    submission = SubmissionOptions(
        options.priority, options.reason, job_labels=options.job_labels, uses=options.uses, program="gantry"
    )
    return tuple(job_with_options(job, submission, "schedule"))


# A schedule as the command line asks for it: when it runs, what becomes of runs that meet or were missed, its job.


@attrs.frozen
class ScheduleOptions:
    """When a schedule runs, and what becomes of runs that meet or were missed; None: not given."""

    cron: str | None
    every_s: float | None
    zone: str | None
    overlap: Overlap | None
    missed: Missed | None
    deadline_s: float | None
    spread_s: float | None


def _checked(check: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback that lets pass what `check` does; what it refuses is wrong usage."""

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                check(value)
        except InvalidRequest as error:
            raise click.BadParameter(error.message) from None
        return value

    return callback


# `--cron`, `--every`, `--zone`, `--overlap`, `--missed`, `--deadline` and `--spread`: a verb gets its `times`
times_options: Final = gathered(
    "times",
    ScheduleOptions,
    click.option(
        "--cron",
        metavar="WORDS",
        # which instants H means counts only for a schedule that has its uuid
        callback=_checked(lambda words: read_words(words, "")),
        help="When, in the five fields of cron, '0 2 * * *', or @daily; H spreads.",
    ),
    click.option("--every", "every_s", type=POSITIVE_DURATION, help="When: 90m, 1d; from its making on."),
    click.option(
        "--zone",
        metavar="NAME",
        callback=_checked(zone_named),
        help="Time zone of the words, Europe/Athens; UTC if left out. Runs are told in local time, too.",
    ),
    click.option(
        "--overlap",
        type=click.Choice([each.value for each in Overlap]),
        callback=lambda _, __, value: value and Overlap(value),
        help="If the job of the run before has not ended: skip (default), queue, cancel-running or allow.",
    ),
    click.option(
        "--missed",
        type=click.Choice([each.value for each in Missed]),
        callback=lambda _, __, value: value and Missed(value),
        help="After an outage: skip, or once for the last missed run; skip by default for periods below 1 h.",
    ),
    click.option("--deadline", "deadline_s", type=DURATION, help="Make up for a missed run only within this time."),
    click.option("--spread", "spread_s", type=DURATION, help="Spread the starts over this time."),
)


def read_request(
    name: str, words: Sequence[str], times: ScheduleOptions, job: ScheduledJobOptions, element: Element | None = None
) -> ScheduleRequest:
    """The schedule that the options tell, with the command of these words, or the job of a plan.

    Args: element: values for which the command is.

    Raises:
        click.UsageError: options exclude each other.
        InvalidRequest: the plan is none.
    """
    if times.cron is not None and times.every_s is not None:
        raise click.UsageError("--cron and --every exclude each other; give one of them")
    return ScheduleRequest(name=name, job=read_job(words, job, element), **attrs.asdict(times, recurse=False))


# `gantry schedule add`: add a schedule.


@click.command(
    "add",
    cls=Command,
    examples=(
        "gantry schedule add nightly --cron '0 2 * * *' --zone Europe/Athens -- backup --all",
        "gantry schedule add probe --every 5m --lock node/web1:shared -- probe web1",
        "gantry schedule add tidy --cron 'H H(1-4) * * *' --overlap queue --spread 10m -- tidy-up",
        "gantry schedule add weekly --cron @weekly --plan weekly.json",
        "gantry schedule add pull --every 1h --retries 3 --retry-delay 1m --cpus 0.5 -- pull-mirror",
        "gantry schedule add 'backup-{host}' --cron 'H 2 * * *' --each host=web1,web2 -- backup {host}",
    ),
)
@times_options
@job_options
@click.option(
    "--each",
    type=EACH,
    multiple=True,
    help="Add a schedule for each value, which stands for {NAME} in the command, --env, --cwd, --stdin, --lock, "
    "--label and the schedule's name: host=web1,web2, n=1..9; repeatable: each combination.",
)
@click.argument("name")
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
def add(
    name: str,
    words: Sequence[str],
    each: Sequence[BatchVariable],
    times: ScheduleOptions,
    command: CommandOptions,
    retry: Mapping[str, object],
    job: JobOptions,
) -> int:
    """Add the schedule NAME: COMMAND, or the job of --plan, is submitted as you, again and again.

    Times by the words of cron are those of --zone: on the night when clocks are set forward, a time that is skipped
    comes when the gap ends; when they are set back, a time that comes twice counts once. Words with * in minute or
    hour, and --every, go by real time. Each job has the schedule's name, and the label schedule=NAME.

    With --each host=web1,web2 there is a schedule for each value, by itself in all; where NAME has no {host}, its
    name ends with the value. Its jobs have the label host=web1, and the variables that 'gnt-job run --help' tells.
    """
    requests = _requests(name, words, each, times, ScheduledJobOptions(command, retry, job))
    if requests[0].cron is None and requests[0].every_s is None:
        raise click.UsageError(
            "a schedule needs --cron 'WORDS' or --every TIME, as in --cron '0 2 * * *' or --every 90m"
        )
    if requests[0].job is None:
        raise click.UsageError("a schedule needs a command after --, or --plan FILE")
    added = []
    for request in requests:
        added.append(ask(AddSchedule(request)))
        # at once: the next one may be refused
        if not wants_json():
            _tell(added[-1])
    if wants_json():
        views = [view_json(view) for view in added]
        say_json(views if each else views[0])
    return DONE


def _requests(
    name: str, words: Sequence[str], each: Sequence[BatchVariable], times: ScheduleOptions, job: ScheduledJobOptions
) -> Sequence[ScheduleRequest]:
    """The schedule, or one for each combination of values.

    Raises: click.UsageError: options do not fit together. InvalidRequest: the plan is none, or there are too many.
    """
    if not each:
        return [read_request(name, words, times, job)]
    if job.job.plan is not None:
        raise click.UsageError("--each is for a command, and would be lost with --plan; add a schedule for each plan")
    if str(job.command.stdin_from) == "-":
        raise click.UsageError("--stdin - is read once, and --each makes several; write --stdin-text, or name a file")
    batch = BatchOptions(variables=tuple(each))
    check_lock_marks(lock_modes(job.command.locks), batch)
    if job.command.shell:
        check_shell_words(words, batch)
    elements = elements_of(batch.variables)
    return [
        read_request(_named(name, values), words, times, job, Element(values, place, len(elements)))
        for place, values in enumerate(elements, 1)
    ]


def _named(name: str, values: Mapping[str, str]) -> str:
    filled = fill(name, values)
    return "-".join([name, *values.values()]) if filled == name else filled


def _tell(view: ScheduleView) -> None:
    say(view.schedule.name)
    remark(explained(view.schedule))
    now = time.time()
    for at in view.next_at:
        remark(f"next run: {instant(at, view.schedule.zone)} ({ahead(at + offset_of(view.schedule), now)})")


# `gantry schedule modify`: change a schedule.


@click.command(
    "modify",
    cls=Command,
    examples=(
        "gantry schedule modify nightly --cron '30 3 * * *'",
        "gantry schedule modify nightly --overlap queue",
        "gantry schedule modify nightly -- backup --all --verbose",
    ),
)
@times_options
@job_options
@click.argument("name", shell_complete=complete_schedule)
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def modify(
    name: str,
    words: Sequence[str],
    times: ScheduleOptions,
    command: CommandOptions,
    retry: Mapping[str, object],
    job: JobOptions,
) -> int:
    """Change what is given of the schedule NAME. Runs that its old times have missed are not made up for.

    A new COMMAND, or --plan, replaces the job; options of the command count only together with it.
    """
    options = ScheduledJobOptions(command, retry, job)
    request = read_request(name, words, times, options)
    if request.job is None and (options.of_command or any(attrs.astuple(job, recurse=False))):
        raise click.UsageError("options of the command count only together with it: give the command again, after --")
    if request == ScheduleRequest(name=name):
        raise click.UsageError(
            "nothing to change; name a value, as in: gantry schedule modify --cron '30 3 * * *' NAME"
        )
    view = ask(ChangeSchedule(request))
    say_result(view_json(view), *info_lines(view, time.time()))
    return DONE
