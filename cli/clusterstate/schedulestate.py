"""The schedules in a line, for `gantry status`."""

from collections.abc import Mapping, Sequence

from cli.connection import ask_luxid
from common.errors import GantryError
from common.schedules.times import offset_of
from common.words.times import duration
from protocol.luxi.schedules import ListSchedules, ScheduleView


def known_schedules() -> Sequence[ScheduleView]:
    """All schedules, each with its next run; none, if luxid cannot tell."""
    try:
        return ask_luxid(ListSchedules(1))
    except GantryError:
        return ()


def schedules_line(views: Sequence[ScheduleView], now: float) -> str:
    """`schedules: 12 (1 paused, 1 stopped), nightly next in 3h12m`."""
    paused = sum(view.schedule.is_paused for view in views)
    stopped = sum(bool(view.stopped) for view in views)
    odd = [f"{count} {what}" for count, what in ((paused, "paused"), (stopped, "stopped")) if count]
    line = f"schedules: {len(views)}" + (f" ({', '.join(odd)})" if odd else "")
    first = _first(views)
    if first is None:
        return line
    return f"{line}, {first.schedule.name} next in {duration(max(_due_at(first) - now, 0))}"


def schedules_json(views: Sequence[ScheduleView]) -> Mapping[str, object]:
    first = _first(views)
    return {
        "count": len(views),
        "paused": sum(view.schedule.is_paused for view in views),
        "stopped": [view.schedule.name for view in views if view.stopped],
        "next": None if first is None else {"name": first.schedule.name, "at": _due_at(first)},
    }


def _first(views: Sequence[ScheduleView]) -> ScheduleView | None:
    return min((view for view in views if view.next_at), key=_due_at, default=None)


def _due_at(view: ScheduleView) -> float:
    return view.next_at[0] + offset_of(view.schedule)
