"""The schedules; ours.

Source: DESIGN section 16.
"""

import attrs

from common.schedules.schedule import Schedule, ScheduleRun
from protocol.messages import Request


@attrs.frozen
class ReadSchedules(Request[tuple[Schedule, ...]]):
    """All schedules, by name."""

    METHOD = "readSchedules"


@attrs.frozen
class PutSchedule(Request[None]):
    """Add a schedule, or replace the one with its uuid, durably; runs are kept. Refused: another one has its name."""

    METHOD = "putSchedule"
    schedule: Schedule


@attrs.frozen
class RemoveSchedule(Request[bool]):
    """Remove a schedule; false if there is none."""

    METHOD = "removeSchedule"
    uuid: str


@attrs.frozen
class Settlement:
    """What became of a run."""

    # the schedule
    uuid: str
    run: ScheduleRun
    # nominal instant up to which all runs of the schedule are settled now
    settled_at: float


@attrs.frozen
class SettleRuns(Request[None]):
    """Note what became of runs, durably, in one write; said twice, it counts once.

    Schedules that are gone are passed over.
    """

    METHOD = "settleRuns"
    settlements: tuple[Settlement, ...]
