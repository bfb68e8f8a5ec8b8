"""`gantry schedule add`: add a schedule."""

import time
from collections.abc import Mapping, Sequence
from typing import Unpack

import click

from cli.choosing.lockargs import lock_modes
from cli.commands import Command
from cli.context import wants_json
from cli.exitcodes import DONE
from cli.fleet.eachvalues import Variable, elements_of, fill
from cli.fleet.fleetoptions import EachType, FleetWish, check_lock_marks, check_shell_words
from cli.gantry.schedule.asking import ask
from cli.gantry.schedule.jobs import Element, job_options
from cli.gantry.schedule.shown import ahead, explained, instant, view_json
from cli.gantry.schedule.wishing import ScheduleOptions, read_wish, times_options
from cli.screen import remark, say, say_json
from common.schedules.times import offset_of
from protocol.luxi.schedules import AddSchedule, ScheduleView, ScheduleWish


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
    type=EachType(),
    multiple=True,
    help="Add a schedule for each value, which stands for {NAME} in the command, --env, --cwd, --stdin, --lock, "
    "--label and the schedule's name: host=web1,web2, n=1..9; repeatable: each combination.",
)
@click.argument("name")
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
def add(
    name: str,
    words: Sequence[str],
    each: Sequence[Variable],
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
    name: str, words: Sequence[str], each: Sequence[Variable], options: ScheduleOptions
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
