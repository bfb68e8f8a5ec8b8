"""Resources and a schedule for tests of what keeps them."""

from common.ids import JobId
from common.resources import Resource, Unit
from common.schedules.schedule import Missed, Overlap, RunState, Schedule, ScheduleRun

LICENCES, MEMORY = Resource("", "licences", 5), Resource("web1", "memory", 2**40, Unit.BYTES)
NIGHTLY = Schedule(
    uuid="u1",
    name="nightly",
    cron="0 2 * * *",
    zone="Europe/Athens",
    every_s=0.0,
    job=({"OP_ID": "OP_TEST_DELAY", "duration": 0.5},),
    overlap=Overlap.SKIP,
    missed=Missed.ONCE,
    deadline_s=0.0,
    spread_s=60.0,
    is_paused=False,
    user="ann",
    uid=1000,
    created_at=1.0,
    changed_at=1.0,
    settled_at=1.5,
    runs=(ScheduleRun(1.5, RunState.SUBMITTED, JobId(7)), ScheduleRun(1.0, RunState.SKIPPED, why="ü")),
)
