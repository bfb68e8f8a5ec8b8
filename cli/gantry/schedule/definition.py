"""The verbs that define schedules: `gantry schedule add` and `modify`."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypedDict, Unpack

import attrs
import click

from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.schedules import SCHEDULE, ahead, ask, explained, info_lines, instant, view_json
from cli.options import DURATION, POSITIVE_DURATION, F, with_options
from cli.remoteoptions import is_remote
from cli.screen import remark, say, say_json
from cli.submitting.arguments import (
    CPUS,
    LABEL,
    LOCK,
    SIZE,
    USE,
    VARIABLE,
    check_text,
    lock_modes,
    read_standard_input,
)
from cli.submitting.fleetoptions import (
    EACH,
    FleetVariable,
    FleetWish,
    check_lock_marks,
    check_shell_words,
    elements_of,
    fill,
)
from cli.submitting.options import RetryOptions, SubmissionOptions, job_with_wishes, retry_options, retry_parameters
from common.errors import InvalidRequest
from common.queue.terms import Use
from common.schedules.schedule import Missed, Overlap
from common.schedules.times import offset_of, read_words, zone_named
from common.words.typed import LockWish
from protocol.luxi.jobs import JobInput, NewJob, OpInput
from protocol.luxi.queue import AddSchedule, ChangeSchedule, ScheduleView, ScheduleWish
from protocol.plans.documents import read_document
from protocol.plans.jobs import read_plan

# The job of a schedule, or one for each of several: from the command line, or from a plan file.


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
            help="Working directory (/).",
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
        click.option(
            "--reason", metavar="TEXT", help="The reason; kept in the reason trail, and may name a rate limit."
        ),
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
        return _with_wishes(NewJob((op,)), options)
    # imported late: most schedules are one
    from cli.submitting.fleet import for_values
    from cli.submitting.fleetoptions import fill

    labels = [(key, fill(value, element.values)) for key, value in options["job_labels"]]
    return _with_wishes(
        NewJob((for_values(op, element.values, element.place, element.size),)),
        {**options, "job_labels": [*element.values.items(), *labels]},
    )


def _with_wishes(job: NewJob, options: JobOptions) -> JobInput:
    wishes = SubmissionOptions(
        options["priority"],
        options["reason"],
        is_waiting=False,
        is_ganeti_form=False,
        prints_ids=False,
        job_labels=options["job_labels"],
        uses=options["uses"],
        program="gantry",
    )
    return tuple(job_with_wishes(job, wishes, "schedule"))


def _absolute(option: str, path: Path | None, node: str | None) -> str | None:
    if path is None:
        return None
    if (is_remote() or node) and not path.is_absolute():
        where = "the node" if node else "the other machine"
        raise click.UsageError(f"{option} '{path}' is on {where}; write a path that begins with /")
    return os.path.abspath(path)


# A schedule as the command line wishes it: when it runs, what becomes of runs that meet or were missed, its job.


class TimesOptions(TypedDict):
    """What `times_options` pass to a verb; None: not given."""

    cron: str | None
    every_s: float | None
    zone: str | None
    overlap: Overlap | None
    missed: Missed | None
    deadline_s: float | None
    spread_s: float | None


class ScheduleOptions(TimesOptions, JobOptions):
    """What `times_options` and `job_options` pass to a verb."""


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


def _overlap(_: click.Context, __: click.Parameter, value: str | None) -> Overlap | None:
    return None if value is None else Overlap(value)


def _missed(_: click.Context, __: click.Parameter, value: str | None) -> Missed | None:
    return None if value is None else Missed(value)


def times_options(function: F) -> F:
    """`--cron`, `--every`, `--zone`, `--overlap`, `--missed`, `--deadline` and `--spread`."""
    return with_options(
        function,
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
            callback=_overlap,
            help="If the job of the run before has not ended: skip (default), queue, cancel-running or allow.",
        ),
        click.option(
            "--missed",
            type=click.Choice([each.value for each in Missed]),
            callback=_missed,
            help="After an outage: skip, or once for the last missed run; skip by default for periods below 1 h.",
        ),
        click.option("--deadline", "deadline_s", type=DURATION, help="Make up for a missed run only within this time."),
        click.option("--spread", "spread_s", type=DURATION, help="Spread the starts over this time."),
    )


def read_wish(
    name: str, words: Sequence[str], options: ScheduleOptions, element: Element | None = None
) -> ScheduleWish:
    """The schedule that the options tell, with the command of these words, or the job of a plan.

    Args: element: values for which the command is.

    Raises:
        click.UsageError: options exclude each other.
        InvalidRequest: the plan is none.
    """
    if options["cron"] is not None and options["every_s"] is not None:
        raise click.UsageError("--cron and --every exclude each other; give one of them")
    return ScheduleWish(
        name=name,
        cron=options["cron"],
        zone=options["zone"],
        every_s=options["every_s"],
        job=read_job(words, options, element),
        overlap=options["overlap"],
        missed=options["missed"],
        deadline_s=options["deadline_s"],
        spread_s=options["spread_s"],
    )


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
    each: Sequence[FleetVariable],
    **options: Unpack[ScheduleOptions],
) -> int:
    """Add the schedule NAME: COMMAND, or the job of --plan, is submitted as you, again and again.

    Times by the words of cron are those of --zone: on the night when clocks are set forward, a time that is skipped
    comes when the gap ends; when they are set back, a time that comes twice counts once. Words with * in minute or
    hour, and --every, go by real time. Each job has the schedule's name, and the label schedule=NAME.

    With --each host=web1,web2 there is a schedule for each value, by itself in all; where NAME has no {host}, its
    name ends with the value. Its jobs have the label host=web1, and the variables that 'gnt-job run --help' tells.
    """
    wishes = _wishes(name, words, each, options)
    if wishes[0].cron is None and wishes[0].every_s is None:
        raise click.UsageError(
            "a schedule needs --cron 'WORDS' or --every TIME, as in --cron '0 2 * * *' or --every 90m"
        )
    if wishes[0].job is None:
        raise click.UsageError("a schedule needs a command after --, or --plan FILE")
    added = []
    for wish in wishes:
        added.append(ask(AddSchedule(wish)))
        # at once: the next one may be refused
        if not wants_json():
            _tell(added[-1])
    if wants_json():
        views = [view_json(view) for view in added]
        say_json(views if each else views[0])
    return DONE


def _wishes(
    name: str, words: Sequence[str], each: Sequence[FleetVariable], options: ScheduleOptions
) -> Sequence[ScheduleWish]:
    """The schedule, or one for each combination of values.

    Raises: click.UsageError: options do not fit together. InvalidRequest: the plan is none, or there are too many.
    """
    if not each:
        return [read_wish(name, words, options)]
    if options["plan"] is not None:
        raise click.UsageError("--each is for a command, and would be lost with --plan; add a schedule for each plan")
    if str(options["stdin_from"]) == "-":
        raise click.UsageError("--stdin - is read once, and --each makes several; write --stdin-text, or name a file")
    fleet = FleetWish(variables=tuple(each))
    check_lock_marks(lock_modes(options["locks"]), fleet)
    if options["shell"]:
        check_shell_words(words, fleet)
    elements = elements_of(fleet.variables)
    return [
        read_wish(_named(name, values), words, options, Element(values, place, len(elements)))
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
@click.argument("name", type=SCHEDULE)
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def modify(
    name: str,
    words: Sequence[str],
    **options: Unpack[ScheduleOptions],
) -> int:
    """Change what is given of the schedule NAME. Runs that its old times have missed are not made up for.

    A new COMMAND, or --plan, replaces the job; options of the command count only together with it.
    """
    wish = read_wish(name, words, options)
    if wish.job is None and any(value for key, value in options.items() if key in JobOptions.__annotations__):
        raise click.UsageError("options of the command count only together with it: give the command again, after --")
    if wish == ScheduleWish(name=name):
        raise click.UsageError(
            "nothing to change; name a value, as in: gantry schedule modify --cron '30 3 * * *' NAME"
        )
    view = ask(ChangeSchedule(wish))
    if wants_json():
        say_json(view_json(view))
    else:
        for line in info_lines(view, time.time()):
            say(line)
    return DONE
