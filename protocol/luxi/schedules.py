"""Schedules as users add, see and change them; ours.

luxid checks a schedule and its job, and has wconfd keep it.

Source: DESIGN section 16.
"""

import attrs

from common.ids import JobId
from common.schedules.schedule import Missed, Overlap, Schedule
from common.shapes import Lenient
from protocol.luxi.submission import JobInput
from protocol.messages import Request


@attrs.frozen(kw_only=True)
class ScheduleWish(Lenient):
    """A schedule as a user wants it; null: the default, or, of a schedule that is there, as it is."""

    name: str
    cron: str | None = None
    zone: str | None = None
    every_s: float | None = None
    job: JobInput | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    deadline_s: float | None = None
    spread_s: float | None = None


@attrs.frozen
class ScheduleView(Lenient):
    """A schedule with what follows from it."""

    schedule: Schedule
    # next nominal instants, in seconds since the epoch; empty: it is paused, or cannot run
    next_at: tuple[float, ...]
    # the job of the last run, if it has not ended
    active_job: JobId | None = None
    # why it cannot run, such as an unknown time zone; "": it can
    stopped: str = ""


@attrs.frozen
class ListSchedules(Request[tuple[ScheduleView, ...]]):
    """All schedules, by name, each with this number of next runs; without the opcodes of their jobs."""

    METHOD = "ListSchedules"
    next_count: int = 3
    # only these, if they are there, with the opcodes of their jobs; null: all, without
    names: tuple[str, ...] | None = None


@attrs.frozen
class AddSchedule(Request[ScheduleView]):
    """Add a schedule, durably; refused if its name is taken, its words name no instant, or its job is malformed."""

    METHOD = "AddSchedule"
    wish: ScheduleWish


@attrs.frozen
class ChangeSchedule(Request[ScheduleView]):
    """Change a schedule; runs that its old words have missed are not made up for."""

    METHOD = "ChangeSchedule"
    wish: ScheduleWish


@attrs.frozen
class PauseSchedule(Request[ScheduleView]):
    """Pause a schedule, or let it go on; runs that it missed meanwhile are not made up for."""

    METHOD = "PauseSchedule"
    name: str
    is_paused: bool


@attrs.frozen
class RunSchedule(Request[JobId]):
    """Submit a schedule's job now; its times stay as they are."""

    METHOD = "RunSchedule"
    name: str
    # chosen by the client, unique for each run: sent again, it is the same run
    key: str = ""


@attrs.frozen
class RemoveScheduleOf(Request[bool]):
    """Remove a schedule; its jobs stay. False: there is none."""

    METHOD = "RemoveSchedule"
    name: str
