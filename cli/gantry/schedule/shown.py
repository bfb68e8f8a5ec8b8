"""Schedules as they are shown, to people and as JSON."""

import datetime
from collections.abc import Sequence
from typing import Final

from common.errors import InvalidRequest
from common.schedules.cronwords import read_words
from common.schedules.schedule import RunState, Schedule, ScheduleRun
from common.schedules.times import offset_of
from common.schedules.zones import zone_named
from common.wire import unstructure
from common.words.times import clock, duration, iso
from protocol.luxi.schedules import ScheduleView

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
