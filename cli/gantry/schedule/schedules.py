"""The verbs on schedules that are there: list, info, pause, resume, run, remove."""

import datetime
import os
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import click

from cli.commands import Command
from cli.connection import open_luxid
from cli.context import wants_json
from cli.exitcodes import DONE, FAILED
from cli.options import complete_schedule
from cli.screen import complain, remark, say, say_json, say_result
from cli.tables import Column, Layout, render, show_lines, table_options
from common.errors import InvalidRequest, PrerequisiteError
from common.schedules.schedule import RunState, Schedule, ScheduleRun
from common.schedules.times import offset_of, read_words, zone_named
from common.wire import unstructure
from common.words.times import clock, duration, iso
from protocol.luxi.queue import ListSchedules, PauseSchedule, RemoveScheduleOf, RunSchedule, ScheduleView
from protocol.messages import Request

# What the verbs of `gantry schedule` ask luxid.


R = TypeVar("R")
# seconds; luxid has wconfd make changes durable
_PATIENCE_S: Final = 30.0


def ask(request: Request[R]) -> R:
    """Raises: as `BlockingClient.call`."""
    with open_luxid() as client:
        return client.call(request, timeout_s=_PATIENCE_S)


def views(names: tuple[str, ...] = (), next_count: int = 3) -> list[ScheduleView]:
    """The schedules of these names, in their order; without names all, without the opcodes of their jobs.

    Raises: PrerequisiteError: one is not there.
    """
    found = {view.schedule.name: view for view in ask(ListSchedules(next_count, names or None))}
    unknown = [name for name in names if name not in found]
    if unknown:
        text = f"there is no schedule {unknown[0]!r:.80}; 'gantry schedule list' shows them"
        raise PrerequisiteError(text, "unknown_entity")
    return [found[name] for name in names] if names else list(found.values())


# Schedules as they are shown, to people and as JSON.


# seconds from which a time is told in years
_YEAR_S: Final = 366 * 86400.0
_LONG_S: Final = 2 * _YEAR_S


def when(schedule: Schedule) -> str:
    """`0 2 * * * Europe/Athens`, `every 1h30m`."""
    if not schedule.cron:
        return f"every {duration(schedule.every_s)}"
    return f"{schedule.cron} {schedule.zone or 'UTC'}"


def explained(schedule: Schedule) -> str:
    """The words in a sentence."""
    if not schedule.cron:
        return f"every {duration(schedule.every_s)}, from {clock(schedule.created_at)} on"
    try:
        return f"{read_words(schedule.cron, schedule.uuid).explain()}, {schedule.zone or 'UTC'}"
    except InvalidRequest as error:
        return error.message


def instant(at: float, zone: str) -> str:
    """`2026-11-22 00:00:00 UTC, 02:00 in Europe/Athens`: local time; of the schedule's zone, if that has another time.

    Args: zone: that of the schedule's cron words; "": it has none.
    """
    local = clock(at)
    if not zone:
        return local
    try:
        there = datetime.datetime.fromtimestamp(at, zone_named(zone))
    except InvalidRequest:
        return local
    if there.replace(tzinfo=None) == datetime.datetime.fromtimestamp(at):
        return local
    day = "" if f"{there:%Y-%m-%d}" == local[:10] else f"{there:%Y-%m-%d} "
    return f"{local}, {day}{there:%H:%M} in {zone}"


def ahead(at: float, now: float) -> str:
    """`in 3h12m`, `in 4 years`."""
    left_s = at - now
    if left_s <= 0:
        return "now"
    return f"in {round(left_s / (_YEAR_S - 0.75 * 86400))} years" if left_s >= _LONG_S else f"in {duration(left_s)}"


def state(view: ScheduleView) -> str:
    if view.stopped:
        return "stopped"
    if view.schedule.is_paused:
        return "paused"
    return "on" if view.next_at else "over"


def next_text(view: ScheduleView, now: float) -> str:
    return ahead(view.next_at[0] + offset_of(view.schedule), now) if view.next_at else ""


def last_text(schedule: Schedule) -> str:
    """`job 17`, `skipped`, `refused`."""
    if not schedule.runs:
        return ""
    return run_text(schedule.runs[-1])


def run_text(run: ScheduleRun) -> str:
    if run.state is RunState.SUBMITTED:
        return f"job {run.job_id}{', by hand' if run.is_by_hand else ''}"
    return str(run.state.value)


def info_lines(view: ScheduleView, now: float) -> Sequence[str]:
    """All of a schedule, line by line."""
    schedule, zone = view.schedule, view.schedule.zone
    lines = [
        f"Schedule: {schedule.name}",
        f"  State: {state(view)}{f': {view.stopped}' if view.stopped else ''}",
        f"  When: {when(schedule)}",
        f"        {explained(schedule)}",
        f"  Job: {_job_text(schedule)}",
        f"  User: {schedule.user or schedule.http_user}",
        f"  Overlap: {schedule.overlap.value}",
        f"  Missed: {schedule.missed.value}{_deadline(schedule)}",
    ]
    if schedule.spread_s:
        lines.append(f"  Spread: {duration(schedule.spread_s)}, its own is {duration(offset_of(schedule))}")
    if view.active_job is not None:
        lines.append(f"  Not ended: job {view.active_job}")
    for number, at in enumerate(view.next_at):
        title = "  Next runs:" if not number else "            "
        lines.append(f"{title} {instant(at, zone)} ({ahead(at + offset_of(schedule), now)})")
    for number, run in enumerate(reversed(schedule.runs)):
        title = "  Last runs:" if not number else "            "
        lines.append(f"{title} {instant(run.nominal_at, zone)} {run_text(run)}{f': {run.why}' if run.why else ''}")
    return lines


def view_json(view: ScheduleView) -> dict[str, object]:
    schedule = unstructure(view.schedule)
    assert isinstance(schedule, dict)
    return {
        **schedule,
        "state": state(view),
        "stopped": view.stopped,
        "next_at": list(view.next_at),
        "next": [iso(at) for at in view.next_at],
        "active_job": view.active_job,
    }


def _deadline(schedule: Schedule) -> str:
    return f", no later than {duration(schedule.deadline_s)}" if schedule.deadline_s else ""


def _job_text(schedule: Schedule) -> str:
    texts = []
    for op in schedule.job:
        argv = op.get("argv")
        texts.append(" ".join(map(str, argv)) if isinstance(argv, list | tuple) else str(op.get("OP_ID")))
    return "; ".join(texts)


# `gantry schedule list`: the schedules, with their next runs.


_TITLES: Final = ("NAME", "STATE", "WHEN", "NEXT", "", "LAST", "USER")


@click.command("list", cls=Command, examples=("gantry schedule list", "gantry schedule list --output json"))
@table_options
def list_schedules(layout: Layout) -> int:
    """List all schedules by name: state, words and zone, the next run, and what became of the last one."""
    found = views(next_count=3 if wants_json() else 1)
    if wants_json():
        # a list has no opcodes; `info` shows them
        say_json([{key: value for key, value in view_json(view).items() if key != "job"} for view in found])
        return DONE
    now = time.time()
    show_lines(render([*map(Column, _TITLES)], [_cells(view, now) for view in found], layout))
    return DONE


def _cells(view: ScheduleView, now: float) -> tuple[str, ...]:
    schedule = view.schedule
    at = clock(view.next_at[0]) if view.next_at else ""
    user = schedule.user or schedule.http_user
    return schedule.name, state(view), when(schedule), at, next_text(view, now), last_text(schedule), user


# `gantry schedule info`: schedules whole.


@click.command("info", cls=Command, examples=("gantry schedule info nightly", "gantry schedule info --next 10 nightly"))
@click.option("--next", "count", type=click.IntRange(0, 100), default=3, help="How many next runs (3).")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_schedule)
def info(names: tuple[str, ...], count: int) -> int:
    """Show schedules whole: their words explained, the next runs in their zone, and the last ones."""
    found = views(names, count)
    if wants_json():
        say_json([view_json(view) for view in found])
        return DONE
    for view in found:
        for line in info_lines(view, time.time()):
            say(line)
    return DONE


# `gantry schedule pause` and `resume`.


@click.command("pause", cls=Command, examples=("gantry schedule pause nightly",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_schedule)
def pause(names: tuple[str, ...]) -> int:
    """Let schedules rest: they have no runs until they are resumed."""
    return _pause(names, is_paused=True)


@click.command("resume", cls=Command, examples=("gantry schedule resume nightly",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_schedule)
def resume(names: tuple[str, ...]) -> int:
    """Let paused schedules go on; runs missed meanwhile are not made up for."""
    return _pause(names, is_paused=False)


def _pause(names: tuple[str, ...], *, is_paused: bool) -> int:
    found = []
    for name in dict.fromkeys(names):
        found.append(ask(PauseSchedule(name, is_paused=is_paused)))
        # at once: the next one may be refused
        if not wants_json():
            remark(f"schedule '{name}' is {'paused' if is_paused else 'resumed'}")
    if wants_json():
        say_json([view_json(view) for view in found])
    return DONE


# `gantry schedule run`: submit a schedule's job now.


@click.command(
    "run", cls=Command, examples=("gantry schedule run nightly", "gnt-job watch $(gantry schedule run nightly)")
)
@click.argument("name", shell_complete=complete_schedule)
def run_now(name: str) -> int:
    """Submit the job of the schedule NAME now, and print its id; the schedule's own times stay as they are."""
    job_id = ask(RunSchedule(name, os.urandom(16).hex()))
    say_result(job_id, str(job_id))
    return DONE


# `gantry schedule remove`: remove schedules.


@click.command("remove", cls=Command, examples=("gantry schedule remove nightly",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_schedule)
def remove(names: tuple[str, ...]) -> int:
    """Remove schedules; jobs of their runs stay, also those that are still queued."""
    gone = {name: ask(RemoveScheduleOf(name)) for name in dict.fromkeys(names)}
    if wants_json():
        say_json(gone)
        return DONE if all(gone.values()) else FAILED
    for name, is_gone in gone.items():
        if is_gone:
            remark(f"schedule '{name}' is removed")
        else:
            complain(f"there is no schedule '{name}'; 'gantry schedule list' shows them")
    return DONE if all(gone.values()) else FAILED
