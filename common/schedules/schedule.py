"""A schedule: which job to submit when, and what to do when runs meet or were missed.

A run is known by its nominal instant: the time that the words of the schedule name, in UTC. Its job is submitted under
the key `schedule/<uuid>/<nominal instant>`, so that no restart and no other master submits it twice.
wconfd keeps the schedules in `schedules.data`, a file of ours; luxid submits their jobs.

Source: DESIGN section 16; everyday.md section c.
"""

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from common.conditions import tag_of
from common.ids import JobId


class Overlap(enum.Enum):
    """What happens when a run is due and the job of the one before has not ended."""

    # no job is submitted; the run is noted as skipped
    SKIP = "skip"
    # its job waits for the other one's end; at most one waits
    QUEUE = "queue"
    # the other job is canceled, its commands are ended; the new one waits for its end
    CANCEL_RUNNING = "cancel-running"
    # both run
    ALLOW = "allow"


class Missed(enum.Enum):
    """What happens to runs whose time passed while nobody could submit them."""

    # none of them is made up for
    SKIP = "skip"
    # the last one is
    ONCE = "once"


class RunState(enum.Enum):
    """What became of a run."""

    SUBMITTED = "submitted"
    # overlap, or missed
    SKIPPED = "skipped"
    REFUSED = "refused"


@attrs.frozen
class ScheduleRun:
    """A run of a schedule."""

    # seconds since the epoch; of a run by hand the instant of the request
    nominal_at: float
    state: RunState
    job_id: JobId | None = None
    # why it was skipped or refused; "": it was not
    why: str = ""
    is_by_hand: bool = False


@attrs.frozen
class Schedule:
    """A schedule; its name is unique."""

    uuid: str
    name: str
    # five words of cron; "": `every_s` counts
    cron: str
    # IANA name of a time zone, for `cron`
    zone: str
    # seconds between two runs, from `created_at` on; 0: `cron` counts
    every_s: float
    # the job: opcodes as JSON objects, terms in the first one's trail
    job: tuple[Mapping[str, object], ...]
    overlap: Overlap
    missed: Missed
    # seconds for which a missed run is made up for; 0: one period
    deadline_s: float
    # seconds over which runs are spread, by the schedule's uuid: always the same for one schedule
    spread_s: float
    is_paused: bool
    # login name and uid of the user whose the jobs are; nobody's, of an HTTP user without a Unix user
    user: str
    uid: int
    # seconds since the epoch
    created_at: float
    changed_at: float
    # nominal instant up to which all runs are settled
    settled_at: float
    # last runs, newest last, at most 20
    runs: tuple[ScheduleRun, ...] = ()
    # name of the HTTP user who made it, and the role then; "": it was made on this machine
    http_user: str = ""
    http_role: str = ""

    @property
    def tag(self) -> str:
        """By which a change says what it takes the schedule for: its runs, and when it was changed, do not count."""
        names = (field.name for field in attrs.fields(Schedule) if field.name not in _NOT_IN_TAGS)
        return tag_of({name: getattr(self, name) for name in names})


_NOT_IN_TAGS: Final = frozenset({"changed_at", "settled_at", "runs"})


# What a schedule knows of its runs: noting what became of one.
#
# Source: DESIGN section 16.


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
