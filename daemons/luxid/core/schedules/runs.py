"""What is to be done about one schedule now. Pure: the time comes in as a value.

Theory. A run is known by its nominal instant, and all runs up to `settled_at` are settled. When the schedule is due,
the last nominal instant that has passed is found backwards, and only that run may get a job: all before it were missed.
So a standstill of a year costs no more than one of a minute, and ends in one run or none.

A clock that is set back repeats nothing: what is settled stays so. One that was a year ahead, and was put right, would
hold its schedules up for that year: a schedule that is settled for more than a day ahead begins anew at the present
time. It still knows its last runs, and never repeats those.

Source: DESIGN section 16; everyday.md sections c and j.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import attrs

from common.ids import JobId
from common.schedules.schedule import Missed, Overlap, RunState, Schedule, ScheduleRun
from common.schedules.times import Times, offset_of

# seconds after its time in which a run counts as punctual: luxid was restarted, or busy
PUNCTUAL_S: Final = 60.0
# seconds by which the clock may be set back until schedules begin anew
AHEAD_S: Final = 24 * 3600.0
# jobs of one schedule that may be unended with `Overlap.QUEUE`: one is under way, one waits
_MOST_IN_LINE: Final = 2


@attrs.frozen
class Decision:
    """What follows for one schedule; in this order."""

    # runs that get no job, the oldest first
    skipped: tuple[ScheduleRun, ...] = ()
    # nominal instant of the run that is to be submitted
    submit_at: float | None = None
    # jobs whose end its job waits for
    after: tuple[JobId, ...] = ()
    # jobs of earlier runs that are to be canceled, once its job is submitted
    cancel: tuple[JobId, ...] = ()
    # when to decide again; None: not before the schedule changes
    next_at: float | None = None
    # whether it is settled for so far ahead that it begins anew, before anything else is decided
    begins_anew: bool = False


def decide(schedule: Schedule, times: Times, now: float, unended: Sequence[JobId]) -> Decision:
    """Args: unended: the jobs of its earlier runs that have not ended, the oldest first."""
    if schedule.is_paused:
        return Decision()
    if is_ahead(schedule, now):
        return Decision(begins_anew=True)
    offset = offset_of(schedule)
    last = times.last_until(now - offset)
    if last is None or last <= schedule.settled_at:
        return Decision(next_at=_next_at(times, max(schedule.settled_at, now - offset), offset))
    next_at = _next_at(times, last, offset)
    earlier = _missed_before(schedule, times, last)
    if (known := _known_run(schedule, last)) is not None:
        return Decision(skipped=(*earlier, known), next_at=next_at)
    late_s = now - offset - last
    if late_s > PUNCTUAL_S and not _is_made_up_for(schedule, late_s):
        return Decision(skipped=(*earlier, _skipped(last, f"missed by {late_s:.0f} s")), next_at=next_at)
    return attrs.evolve(_overlapping(schedule, last, unended, earlier), next_at=next_at)


def is_ahead(schedule: Schedule, now: float) -> bool:
    """Whether the clock was set back by more than a day since the schedule's last run."""
    return schedule.settled_at > now + AHEAD_S


def upcoming(schedule: Schedule, times: Times, now: float, count: int) -> tuple[float, ...]:
    """The next nominal instants of a schedule that is not paused."""
    found: list[float] = []
    at: float | None = max(schedule.settled_at, now - offset_of(schedule)) if not is_ahead(schedule, now) else now
    while len(found) < count and at is not None and not schedule.is_paused:
        at = times.next_after(at)
        if at is not None:
            found.append(at)
    return tuple(found)


def _next_at(times: Times, at: float, offset: float) -> float | None:
    found = times.next_after(at)
    return None if found is None else found + offset


def _known_run(schedule: Schedule, nominal_at: float) -> ScheduleRun | None:
    runs = (run for run in schedule.runs if run.nominal_at == nominal_at and not run.is_by_hand)
    return next(runs, None)


def _missed_before(schedule: Schedule, times: Times, last: float) -> tuple[ScheduleRun, ...]:
    """The run before the last one, if it was missed; it stands for all that were missed before it."""
    before = times.last_until(last - 1)
    if before is None or before <= schedule.settled_at or _known_run(schedule, before) is not None:
        return ()
    return (_skipped(before, "missed, as all were since the run before; only the last one counts"),)


def _is_made_up_for(schedule: Schedule, late_s: float) -> bool:
    match schedule.missed:
        case Missed.SKIP:
            return False
        case Missed.ONCE:
            # without a deadline it is one period, and the last instant is never longer ago
            return not schedule.deadline_s or late_s <= schedule.deadline_s
        case _:
            assert_never(schedule.missed)


def _overlapping(
    schedule: Schedule, nominal_at: float, unended: Sequence[JobId], earlier: tuple[ScheduleRun, ...]
) -> Decision:
    submitted = Decision(skipped=earlier, submit_at=nominal_at)
    if not unended:
        return submitted
    match schedule.overlap:
        case Overlap.ALLOW:
            return submitted
        case Overlap.CANCEL_RUNNING:
            return attrs.evolve(submitted, cancel=tuple(unended), after=tuple(unended))
        case Overlap.QUEUE if len(unended) < _MOST_IN_LINE:
            return attrs.evolve(submitted, after=tuple(unended))
        case Overlap.QUEUE:
            why = f"job {unended[0]} has not ended, and job {unended[-1]} waits for it already"
        case Overlap.SKIP:
            why = f"job {unended[-1]} of the run before has not ended"
        case _:
            assert_never(schedule.overlap)
    return Decision(skipped=(*earlier, _skipped(nominal_at, why)))


def _skipped(nominal_at: float, why: str) -> ScheduleRun:
    return ScheduleRun(nominal_at, RunState.SKIPPED, why=why)
