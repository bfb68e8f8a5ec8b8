"""Which runs of schedules are due, and what becomes of them."""

import heapq
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, assert_never

import attrs

from common.errors import InvalidRequest
from common.ids import JobId
from common.queue.jobs import FINAL, Dependency
from common.queue.reasons import NO_UID
from common.queue.terms import SOURCE, check_terms, checked, terms_entry, terms_of_trail, terms_text
from common.schedules.schedule import Missed, Overlap, RunState, Schedule, ScheduleRun
from common.schedules.times import ScheduleTimes, check_times, instant_name, offset_of, times_of
from protocol.luxi.jobs import JobInput
from protocol.luxi.queue import ScheduleRequest

# From what a user wants to a schedule: names, defaults, and what a schedule's job must not have.
#
# Source: DESIGN section 16; everyday.md section j.


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
# seconds; missed runs of schedules with a shorter period are not made up for by default
SHORT_PERIOD_S: Final = 3600.0
# what parts are that a user leaves out; that of `missed` depends on the period
_DEFAULTS: Final[Mapping[str, object]] = {
    "cron": "",
    "zone": "",
    "every_s": 0.0,
    "overlap": Overlap.SKIP,
    "missed": Missed.ONCE,
    "deadline_s": 0.0,
    "spread_s": 0.0,
}
T = TypeVar("T")


@attrs.frozen
class ScheduleOwner:
    """The user whose the jobs are."""

    uid: int
    login: str
    # name of an HTTP user, and his role; "": a user of this machine
    http_user: str = ""
    http_role: str = ""


def new_schedule(wish: ScheduleRequest, uuid: str, owner: ScheduleOwner, now: float) -> Schedule:
    """Raises: InvalidRequest: a part is missing or malformed; says which, and what to write."""
    check_name(wish.name)
    if wish.job is None:
        raise InvalidRequest(f"schedule '{wish.name}' needs a job")
    schedule = Schedule(
        uuid=uuid,
        name=wish.name,
        cron=(wish.cron or "").strip(),
        zone=wish.zone or "",
        every_s=wish.every_s or 0.0,
        job=wish.job,
        overlap=wish.overlap or Overlap.SKIP,
        missed=wish.missed or Missed.ONCE,
        deadline_s=wish.deadline_s or 0.0,
        spread_s=wish.spread_s or 0.0,
        is_paused=False,
        user=owner.login,
        uid=owner.uid,
        # intervals begin here, and have whole seconds
        created_at=float(int(now)),
        changed_at=now,
        settled_at=now,
        http_user=owner.http_user,
        http_role=owner.http_role,
    )
    _check(schedule)
    return schedule if wish.missed else attrs.evolve(schedule, missed=_default_missed(schedule, now))


def replaced_schedule(schedule: Schedule, wish: ScheduleRequest, now: float) -> Schedule:
    """The schedule as the wish says, with defaults for what that leaves out.

    Its user, its age, whether it is paused, and what it knows of its runs stay.

    Raises: InvalidRequest: as `new_schedule`.
    """
    owner = ScheduleOwner(schedule.uid, schedule.user, schedule.http_user, schedule.http_role)
    wanted = new_schedule(wish, schedule.uuid, owner, now)
    after = attrs.evolve(
        wanted,
        is_paused=schedule.is_paused,
        created_at=schedule.created_at,
        settled_at=schedule.settled_at,
        runs=schedule.runs,
    )
    return _settled_anew(schedule, after, now)


def changed_schedule(schedule: Schedule, wish: ScheduleRequest, now: float, cleared: Sequence[str] = ()) -> Schedule:
    """The schedule with what the wish names.

    Args: cleared: names of parts that get their default.
    Raises: InvalidRequest: as `new_schedule`.
    """
    cron = (wish.cron or "").strip() if wish.every_s is None else ""
    every_s = wish.every_s or 0.0
    has_new_times = wish.cron is not None or wish.every_s is not None
    after = attrs.evolve(
        schedule,
        cron=cron if has_new_times else schedule.cron,
        every_s=every_s if has_new_times else schedule.every_s,
        zone=_or(wish.zone, schedule.zone),
        job=_or(wish.job, schedule.job),
        overlap=_or(wish.overlap, schedule.overlap),
        missed=_or(wish.missed, schedule.missed),
        deadline_s=_or(wish.deadline_s, schedule.deadline_s),
        spread_s=_or(wish.spread_s, schedule.spread_s),
        changed_at=now,
    )
    after = _with_defaults(after, cleared, now)
    if wish.cron and wish.every_s:
        raise InvalidRequest(f"schedule '{schedule.name}' needs either cron words or an interval, one of both")
    _check(after)
    return _settled_anew(schedule, after, now)


def _with_defaults(schedule: Schedule, names: Sequence[str], now: float) -> Schedule:
    """Raises: InvalidRequest: a name is that of no part, or of one that has no default."""
    for name in names:
        if name not in _DEFAULTS:
            raise InvalidRequest(f"schedule '{schedule.name}' cannot be without {name!r:.40}; give it another value")
    after = attrs.evolve(schedule, **{name: _DEFAULTS[name] for name in names})  # type: ignore[arg-type]
    if "missed" not in names:
        return after
    check_times(after)
    return attrs.evolve(after, missed=_default_missed(after, now))


def _settled_anew(schedule: Schedule, after: Schedule, now: float) -> Schedule:
    """The schedule after a change; what its old words missed is not made up for."""
    is_other = (after.cron, after.zone, after.every_s, after.spread_s) != (
        *(schedule.cron, schedule.zone, schedule.every_s, schedule.spread_s),
    )
    return attrs.evolve(after, settled_at=max(now, schedule.settled_at)) if is_other else after


def paused(schedule: Schedule, now: float, *, is_paused: bool) -> Schedule:
    """The schedule after it was paused, or goes on: then runs missed meanwhile are not made up for."""
    if schedule.is_paused is is_paused:
        return schedule
    settled_at = schedule.settled_at if is_paused else now
    return attrs.evolve(schedule, is_paused=is_paused, settled_at=settled_at, changed_at=now)


def check_name(name: str) -> None:
    """Raises: InvalidRequest: no schedule may be named so."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"no schedule can be named {name!r:.80}; a name has 1 to 63 letters, digits, '.', '_' and '-', and begins "
            "with a letter or digit"
        )


def _check(schedule: Schedule) -> None:
    check_times(schedule)
    if not schedule.job:
        raise InvalidRequest(f"schedule '{schedule.name}': its job needs at least one opcode")
    for op in schedule.job:
        if op.get("depends") or op.get("depend"):
            raise InvalidRequest(
                f"schedule '{schedule.name}': its job cannot depend on other jobs, as it is submitted again and again"
            )
    text = terms_text(schedule.job[0].get("reason"))
    terms = checked(check_terms(text)) if text is not None else None
    if terms is not None and (terms.begin_at is not None or terms.hold is not None):
        raise InvalidRequest(
            f"schedule '{schedule.name}': its job cannot begin later or be on hold; its times are the schedule's, and "
            "'gantry schedule pause' holds it"
        )
    if schedule.uid == NO_UID and not schedule.http_user:
        raise InvalidRequest(f"schedule '{schedule.name}': nobody would own its jobs")


def _default_missed(schedule: Schedule, now: float) -> Missed:
    times = times_of(schedule)
    first = times.next_after(now)
    second = None if first is None else times.next_after(first)
    if first is None or second is None:
        return Missed.ONCE
    return Missed.SKIP if second - first < SHORT_PERIOD_S else Missed.ONCE


def _or(wanted: T | None, there: T) -> T:
    return there if wanted is None else wanted


# When each schedule is to be looked at next.


class Agenda:
    """Instants by schedule. Cost: O(log n) for each change; what is replaced stays until its time comes."""

    def __init__(self) -> None:
        # by uuid; seconds since the epoch
        self._instants: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._instants)

    def put(self, uuid: str, at: float | None) -> None:
        """Look at this schedule then, and not before; None: not at all."""
        if at is None:
            self._instants.pop(uuid, None)
        elif self._instants.get(uuid) != at:
            self._instants[uuid] = at
            heapq.heappush(self._heap, (at, uuid))

    def take(self, now: float, most: int) -> list[str]:
        """Remove and return schedules whose time has come, the earliest first."""
        taken: list[str] = []
        while len(taken) < most and (at := self.next_at) is not None and at <= now:
            _, uuid = heapq.heappop(self._heap)
            del self._instants[uuid]
            taken.append(uuid)
        return taken

    @property
    def next_at(self) -> float | None:
        """The first instant; None: there is none."""
        while self._heap and self._instants.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


# What is to be done about one schedule now. Pure: the time comes in as a value.
#
# Theory. A run is known by its nominal instant, and all runs up to `settled_at` are settled. When the schedule is due,
# the last nominal instant that has passed is found backwards, and only that run may get a job: all before it were
# missed. So a standstill of a year costs no more than one of a minute, and ends in one run or none.
#
# A clock that is set back repeats nothing: what is settled stays so. One that was a year ahead, and was put right,
# would hold its schedules up for that year: a schedule that is settled for more than a day ahead begins anew at the
# present time. It still knows its last runs, and never repeats those.
#
# Source: DESIGN section 16; everyday.md sections c and j.


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


def decide(schedule: Schedule, times: ScheduleTimes, now: float, unended: Sequence[JobId]) -> Decision:
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


def upcoming(schedule: Schedule, times: ScheduleTimes, now: float, count: int) -> tuple[float, ...]:
    """The next nominal instants of a schedule that is not paused."""
    found: list[float] = []
    at: float | None = max(schedule.settled_at, now - offset_of(schedule)) if not is_ahead(schedule, now) else now
    while len(found) < count and at is not None and not schedule.is_paused:
        at = times.next_after(at)
        if at is not None:
            found.append(at)
    return tuple(found)


def _next_at(times: ScheduleTimes, at: float, offset: float) -> float | None:
    found = times.next_after(at)
    return None if found is None else found + offset


def _known_run(schedule: Schedule, nominal_at: float) -> ScheduleRun | None:
    runs = (run for run in schedule.runs if run.nominal_at == nominal_at and not run.is_by_hand)
    return next(runs, None)


def _missed_before(schedule: Schedule, times: ScheduleTimes, last: float) -> tuple[ScheduleRun, ...]:
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


# The job of a run: the schedule's opcodes, under its name, with a label, after the jobs that it waits for.
#
# Source: DESIGN section 16; everyday.md sections c and f.


LABEL: Final = "schedule"
_NS: Final = 1_000_000_000
_ANY_END: Final = tuple(sorted(FINAL, key=lambda state: state.value))


def run_key(schedule: Schedule, nominal_at: float) -> str:
    """The submission key of a run: the same for it at each start of luxid, and on each master."""
    return f"schedule/{schedule.uuid}/{instant_name(nominal_at)}"


def hand_key(schedule: Schedule, key: str) -> str:
    """The submission key of a run by hand. Args: key: chosen by the client."""
    return f"schedule/{schedule.uuid}/by-hand/{key}"


def run_job(schedule: Schedule, nominal_at: float, after: Sequence[JobId] = ()) -> JobInput:
    """Args: after: jobs whose end, whatever it is, the job waits for."""
    first, *others = schedule.job
    trail = first.get("reason")
    entries = [entry for entry in trail if not _is_terms(entry)] if isinstance(trail, list | tuple) else []
    terms = terms_of_trail(trail)
    named = attrs.evolve(terms, name=schedule.name, labels={**terms.labels, LABEL: schedule.name}, trace="")
    entry = terms_entry(named, int(nominal_at * _NS)).to_wire()
    run: dict[str, object] = {**first, "reason": [*entries, entry]}
    if after:
        run["depends"] = [Dependency(job_id, _ANY_END).to_wire() for job_id in after]
    return (run, *others)


def _is_terms(entry: object) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and entry[0] == SOURCE
