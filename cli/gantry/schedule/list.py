"""`gantry schedule list`: the schedules, with their next runs."""

import time
from typing import Final

import click

from cli.commands import Command
from cli.context import uses_color, wants_json
from cli.exitcodes import DONE
from cli.gantry.schedule.asking import views
from cli.gantry.schedule.shown import last_text, next_text, state, view_json, when
from cli.options import table_options
from cli.paging import show_lines
from cli.screen import say_json
from cli.tables import Column, Layout, render
from common.words.times import clock
from protocol.luxi.schedules import ScheduleView

_TITLES: Final = ("NAME", "STATE", "WHEN", "NEXT", "", "LAST", "USER")


@click.command("list", cls=Command, examples=("gantry schedule list", "gantry schedule list --output json"))
@table_options
def list_schedules(no_headers: bool, separator: str | None) -> int:
    """List all schedules by name: state, words and zone, the next run, and what became of the last one."""
    found = views(next_count=3 if wants_json() else 1)
    if wants_json():
        # a list has no opcodes; `info` shows them
        say_json([{key: value for key, value in view_json(view).items() if key != "job"} for view in found])
        return DONE
    layout, now = Layout(not no_headers, separator, has_color=uses_color()), time.time()
    show_lines(render([*map(Column, _TITLES)], [_cells(view, now) for view in found], layout))
    return DONE


def _cells(view: ScheduleView, now: float) -> tuple[str, ...]:
    schedule = view.schedule
    at = clock(view.next_at[0]) if view.next_at else ""
    user = schedule.user or schedule.http_user
    return schedule.name, state(view), when(schedule), at, next_text(view, now), last_text(schedule), user
