"""What a schedule knows of its runs: noting what became of one.

Source: DESIGN section 16.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import attrs

from common.schedules.schedule import Schedule, ScheduleRun

# last runs that are kept with the schedule: so many with a job, as it must be known whether that has ended, and so many
# without
MOST_RUNS: Final = 10


def settled(schedule: Schedule, run: ScheduleRun, settled_at: float) -> Schedule:
    """The schedule after this run; the very same one, if it knows the run.

    Args: settled_at: up to which all runs are settled; earlier than before, if the clock was wrong then.
    """
    if run in schedule.runs and schedule.settled_at == settled_at:
        return schedule
    others = [each for each in schedule.runs if _identity(each) != _identity(run)]
    return attrs.evolve(schedule, runs=_latest([*others, run]), settled_at=settled_at)


def _latest(runs: Sequence[ScheduleRun]) -> tuple[ScheduleRun, ...]:
    left = Counter[bool]()
    kept: list[ScheduleRun] = []
    for run in reversed(runs):
        left[run.job_id is None] += 1
        if left[run.job_id is None] <= MOST_RUNS:
            kept.append(run)
    return tuple(reversed(kept))


def _identity(run: ScheduleRun) -> tuple[float, bool]:
    return run.nominal_at, run.is_by_hand
