"""From what a user wants to a schedule: names, defaults, and what a schedule's job must not have.

Source: DESIGN section 16; everyday.md section j.
"""

import re
from typing import Final, TypeVar

import attrs

from common.errors import InvalidRequest
from common.queue.submitter import NO_UID
from common.queue.terms import check_terms, checked, terms_text
from common.schedules.schedule import Missed, Overlap, Schedule
from common.schedules.times import check_times, times_of
from protocol.luxi.schedules import ScheduleWish

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
# seconds; missed runs of schedules with a shorter period are not made up for by default
SHORT_PERIOD_S: Final = 3600.0
T = TypeVar("T")


@attrs.frozen
class ScheduleOwner:
    """The user whose the jobs are."""

    uid: int
    login: str
    # name of an HTTP user, and his role; "": a user of this machine
    http_user: str = ""
    http_role: str = ""


def new_schedule(wish: ScheduleWish, uuid: str, owner: ScheduleOwner, now: float) -> Schedule:
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


def changed_schedule(schedule: Schedule, wish: ScheduleWish, now: float) -> Schedule:
    """The schedule with what the wish names. Raises: InvalidRequest: as `new_schedule`."""
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
    if wish.cron and wish.every_s:
        raise InvalidRequest(f"schedule '{schedule.name}' needs either cron words or an interval, one of both")
    _check(after)
    # what the old words missed is not made up for
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
