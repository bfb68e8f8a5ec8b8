"""Schedules under /3.

Source: DESIGN sections 15 and 16.
"""

import attrs

from common.ids import JobId
from common.schedules.schedule import Missed, Overlap
from protocol.luxi.schedules import ScheduleView
from protocol.rapid.submission import OpInput


@attrs.frozen
class ScheduleList:
    # by name
    schedules: tuple[ScheduleView, ...]


@attrs.frozen(kw_only=True)
class ScheduleForm:
    """A schedule to set; what is left out has its default, or stays as it is."""

    # five words of cron, or `every_s`
    cron: str | None = None
    # IANA name of a time zone
    zone: str | None = None
    every_s: float | None = None
    # opcodes of the job
    job: tuple[OpInput, ...] | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    deadline_s: float | None = None
    spread_s: float | None = None


@attrs.frozen
class StartedRun:
    """The job of a run by hand."""

    id: JobId
