"""The nominal instants of a schedule: by its cron words in its zone, or by its interval.

Source: DESIGN section 16; everyday.md sections c and j.
"""

import datetime
import hashlib
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from common.errors import InvalidRequest, Unavailable
from common.schedules.schedule import Schedule
from common.system.shortages import is_passing

# The five words of cron: what they may be, and which instants they name.
#
# Theory. The library cronsim reads the words; times that are named by hour and minute keep to Debian's cron on the
# nights when clocks are set: a time that is skipped comes at the end of the gap, one that comes twice counts once.
# Words with a `*` in minute or hour go by real time. Ours are `@daily` and its like, and `H`: a value that is always
# the same for a schedule, and differs from schedule to schedule.
#
# cronsim walks by the clock on the wall. On such a night it may begin beside the instant asked for: for named times the
# walk begins well before it, and what does not fit is passed over. And it walks in whole hours, while some zones are
# set by half an hour: for words that go by real time each minute of such a night is looked at here.
#
# Source: everyday.md sections c and j.


if TYPE_CHECKING:
    from cronsim import CronSim

_SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS: Final = ("minute", "hour", "day-of-month", "month", "day-of-week")
# least and greatest value that H stands for; each month has 28 days
_HASHED: Final = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
_H: Final = re.compile(r"H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?", re.ASCII)
_WRAP: Final = re.compile(r"(\d{1,2})-(\d{1,2})", re.ASCII)
LONGEST: Final = 200
# longer than any zone was ever set at once: Samoa lost a day
_NIGHT: Final = datetime.timedelta(hours=26)
# more than the library passes over of such a night
_ASTRAY: Final = datetime.timedelta(hours=3)
_MINUTE: Final = datetime.timedelta(minutes=1)
_SECOND: Final = datetime.timedelta(seconds=1)
# an instant beyond which nobody plans, and the library's calendar ends
_LATEST_YEAR: Final = 9000


@attrs.frozen
class CronWords:
    """Words that were checked; make them with `read_words`."""

    # as the library takes them: five fields, without shorthands and H
    expression: str

    def next_after(self, at: datetime.datetime) -> datetime.datetime | None:
        """The first instant after this one. Args: at: in the zone of the words. None: there is none for 50 years."""
        if not _is_odd(at):
            found = next(self._walk(at), None)
            # the walk may have come to such a night
            near = None if found is None or not self._goes_astray(found) else max(_later(found, -_ASTRAY), at, key=_utc)
            return found if near is None or not _is_odd(near) else self.next_after(near)
        if self._names_times:
            return next((found for found in self._walk(_later(at, -_NIGHT)) if _utc(found) > _utc(at)), None)
        minute = _later(at.replace(second=0, microsecond=0), _MINUTE)
        library = self._library(_SOME_DAY)
        # looked up once an hour
        while minute.minute or _is_odd(minute):
            if _fits(library, minute):
                return minute
            minute = _later(minute, _MINUTE)
        return next(self._walk(_later(minute, -_SECOND)), None)

    def last_until(self, at: datetime.datetime) -> datetime.datetime | None:
        """The last instant at or before this one; otherwise as `next_after`."""
        if not _is_odd(at):
            found = next(self._walk(_later(at, _SECOND), reverse=True), None)
            near = None if found is None or not self._goes_astray(found) else min(_later(found, _ASTRAY), at, key=_utc)
            return found if near is None or not _is_odd(near) else self.last_until(near)
        if self._names_times:
            walk = self._walk(_later(at, _NIGHT), reverse=True)
            return next((found for found in walk if _utc(found) <= _utc(at)), None)
        minute = at.replace(second=0, microsecond=0)
        library = self._library(_SOME_DAY)
        # looked up once an hour
        while minute.minute or _is_odd(minute):
            if _fits(library, minute):
                return minute
            minute = _later(minute, -_MINUTE)
        return next(self._walk(_later(minute, _SECOND), reverse=True), None)

    def explain(self) -> str:
        """The words in a sentence: 'At 02:00'."""
        return self._library(_SOME_DAY).explain()

    @property
    def _names_times(self) -> bool:
        """Whether it names times of the day, which go by the clock on the wall; others go by real time."""
        minute, hour = self.expression.split()[:2]
        return not minute.startswith("*") and not hour.startswith("*")

    def _goes_astray(self, found: datetime.datetime) -> bool:
        """Whether the library may have passed an instant over on its way to this one."""
        return not self._names_times and _is_odd(found)

    def _walk(self, begin: datetime.datetime, *, reverse: bool = False) -> "Iterator[datetime.datetime]":
        if begin.year > _LATEST_YEAR:
            return iter(())
        return self._library(begin.replace(microsecond=0), reverse=reverse)

    def _library(self, begin: datetime.datetime, *, reverse: bool = False) -> "CronSim":
        # imported late: most daemons and commands need no cron words
        from cronsim import CronSim

        return CronSim(self.expression, begin, reverse=reverse)


def read_words(words: str, seed: str) -> CronWords:
    """Check cron words. Args: seed: names the schedule; it decides what H stands for.

    Raises: InvalidRequest: they are no cron words, or name no instant; says which word, and what to write.
    """
    from cronsim import CronSim, CronSimError

    if len(words) > LONGEST or not words.isascii() or not words.isprintable():
        raise InvalidRequest(f"cron words have at most {LONGEST} printable ASCII characters; got {words!r:.60}")
    expression = _fields(words)
    for name, field in zip(_FIELDS, expression, strict=True):
        _check_field(words, name, field)
    ours = CronWords(" ".join(_without_hash(field, index, seed, words) for index, field in enumerate(expression)))
    try:
        CronSim(ours.expression, _SOME_DAY)
    except (CronSimError, AssertionError, ValueError) as error:
        raise InvalidRequest(_refusal(words, ours, str(error))) from None
    if ours.next_after(_SOME_DAY) is None:
        raise InvalidRequest(f"the cron words '{words}' name no instant: no year has such a day")
    return ours


_SOME_DAY: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)


def _fields(words: str) -> list[str]:
    text = words.strip().lower()
    if text.startswith("@") and text not in _SHORTHANDS:
        raise InvalidRequest(f"unknown cron word '{text}'; known are {', '.join(_SHORTHANDS)}")
    fields = _SHORTHANDS.get(text, words.upper()).split()
    if len(fields) != len(_FIELDS):
        raise InvalidRequest(
            f"cron words are five: minute, hour, day of the month, month, day of the week; '{words}' has {len(fields)}"
        )
    return fields


def _check_field(words: str, name: str, field: str) -> None:
    """Refuse what people write who come from other crons."""
    if any(sign in field for sign in "?~"):
        raise InvalidRequest(f"cron words '{words}': '{field}' for the {name} is not understood; write '*' for any")
    for term in field.split(","):
        match = _WRAP.fullmatch(term.partition("/")[0])
        if match is not None and int(match[1]) > int(match[2]):
            low, high = _HASHED[_FIELDS.index(name)]
            high = 31 if name == "day-of-month" else high
            raise InvalidRequest(
                f"cron words '{words}': '{term}' for the {name} goes over the end; "
                f"write {match[1]}-{high},{low}-{match[2]}"
            )


def _without_hash(field: str, index: int, seed: str, words: str) -> str:
    if "H" not in field or index >= 3:
        # names of months and days have letters of their own
        return field if field != "H" else _hashed("H", index, seed, words)
    return ",".join(_hashed(term, index, seed, words) if "H" in term else term for term in field.split(","))


def _hashed(term: str, index: int, seed: str, words: str) -> str:
    match = _H.fullmatch(term)
    least, most = _HASHED[index]
    low, high = (int(match[1]), int(match[2])) if match and match[1] else (least, most)
    step = int(match[3]) if match and match[3] else 0
    if match is None or not least <= low <= high <= (31 if index == 2 else most) or match[3] == "0":
        raise InvalidRequest(
            f"cron words '{words}': '{term}' for the {_FIELDS[index]} is not understood; write H, H/5 or H(0-29)"
        )
    number = int.from_bytes(hashlib.sha256(f"{seed}:{index}".encode()).digest()[:8])
    if not step:
        return str(low + number % (high - low + 1))
    return ",".join(map(str, range(low + number % min(step, high - low + 1), high + 1, step)))


def _refusal(words: str, ours: CronWords, reason: str) -> str:
    name = next((name for name in _FIELDS if name in reason), None)
    if name is None:
        return f"the cron words '{words}' are not understood"
    field = ours.expression.split()[_FIELDS.index(name)]
    if name == "day-of-month" and re.fullmatch(r"[\d,-]+", field):
        return f"cron words '{words}': no month that they name has the day {field}"
    return (
        f"cron words '{words}': '{field}' for the {name} is not understood; "
        "write numbers, *, 1-5, */15, 1,15, names such as MON or JAN, L for the last day"
    )


def _fits(words: "CronSim", at: datetime.datetime) -> bool:
    is_time = at.minute in words.minutes and at.hour in words.hours
    return is_time and at.month in words.months and words.match_day(at.date())


def _is_odd(at: datetime.datetime) -> bool:
    """Whether clocks are set around this time."""
    return _later(at, -_NIGHT).utcoffset() != _later(at, _NIGHT).utcoffset()


def _later(at: datetime.datetime, by: datetime.timedelta) -> datetime.datetime:
    """By real time; adding to a time in a zone goes by the clock on the wall."""
    return (_utc(at) + by).astimezone(at.tzinfo)


def _utc(at: datetime.datetime) -> datetime.datetime:
    return at.astimezone(datetime.UTC)


# Time zones by their IANA names.
#
# Theory. Zones are read from files. A shortage of descriptors or memory, or a faulty disk, says nothing about the name,
# and is told apart from a name that no file has.


UTC: Final = "UTC"


def zone_named(name: str) -> datetime.tzinfo:
    """The zone with this name; "" is UTC.

    Raises:
        InvalidRequest: the system does not know it; says what to do.
        Unavailable: its file cannot be read now.
    """
    if name in ("", UTC):
        # the zone of this name from the database is slower
        return datetime.UTC
    # imported late: most programs need no zones
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        if isinstance(error, OSError) and is_passing(error):
            raise Unavailable(f"the time zone {name!r:.80} cannot be read now: {error.strerror}; try again") from error
        raise InvalidRequest(
            f"unknown time zone {name!r:.80}; use a name such as Europe/Athens or UTC: 'timedatectl list-timezones' "
            "lists them",
            zone=name,
        ) from None


# seconds
SHORTEST_S: Final = 1.0
LONGEST_S: Final = 10 * 366 * 86400.0
# of a deadline and a spread
LONGEST_SPAN_S: Final = 366 * 86400.0
# seconds since 1970 beyond which no calendar is kept
_LATEST_S: Final = 250_000_000_000.0


class ScheduleTimes(Protocol):
    """Nominal instants, in whole seconds since the epoch, strictly rising."""

    def next_after(self, at: float) -> float | None:
        """The first one after this instant; None: there is none."""
        ...

    def last_until(self, at: float) -> float | None:
        """The last one at or before this instant; None: there is none."""
        ...


@attrs.frozen
class Intervals:
    """Instants at the same distance, by real time."""

    # seconds
    begin: float
    every_s: float

    def next_after(self, at: float) -> float | None:
        return self.begin + max(math.floor((at - self.begin) / self.every_s) + 1, 1) * self.every_s

    def last_until(self, at: float) -> float | None:
        count = math.floor((at - self.begin) / self.every_s)
        return self.begin + count * self.every_s if count >= 1 else None


@attrs.frozen
class CronTimes:
    """Instants by cron words, in a zone."""

    words: CronWords
    zone: datetime.tzinfo

    def next_after(self, at: float) -> float | None:
        return _stamp(self.words.next_after(self._local(at)))

    def last_until(self, at: float) -> float | None:
        return _stamp(self.words.last_until(self._local(at)))

    def _local(self, at: float) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(math.floor(min(max(at, 0.0), _LATEST_S)), self.zone)


def _stamp(found: datetime.datetime | None) -> float | None:
    return None if found is None else found.timestamp()


def times_of(schedule: Schedule) -> ScheduleTimes:
    """The instants of a schedule. Raises: InvalidRequest: its zone is unknown here, or its words name none; says what.
        Unavailable: its zone cannot be read now.

    The zone's rules may have changed since the schedule was made: nothing is taken from earlier.
    """
    if not schedule.cron:
        if schedule.every_s < SHORTEST_S:
            raise InvalidRequest(f"schedule '{schedule.name}' has neither cron words nor an interval")
        return Intervals(schedule.created_at, schedule.every_s)
    return CronTimes(read_words(schedule.cron, schedule.uuid), zone_named(schedule.zone))


def check_times(schedule: Schedule) -> ScheduleTimes:
    """The instants of a schedule that a user wants.

    Raises: InvalidRequest: words or zone as of `times_of`, or an interval or a span beyond its bounds.
    """
    if bool(schedule.cron) == bool(schedule.every_s):
        raise InvalidRequest(f"schedule '{schedule.name}' needs either cron words or an interval, one of both")
    if schedule.every_s and not (SHORTEST_S <= schedule.every_s <= LONGEST_S and float(schedule.every_s).is_integer()):
        raise InvalidRequest(
            f"an interval has whole seconds, {SHORTEST_S:.0f} to {LONGEST_S:.0f}, got {schedule.every_s:g}"
        )
    for what, span in (("deadline", schedule.deadline_s), ("spread", schedule.spread_s)):
        if not 0 <= span <= LONGEST_SPAN_S:
            raise InvalidRequest(f"the {what} of a schedule is 0 to {LONGEST_SPAN_S:.0f} seconds, got {span:g}")
    return times_of(schedule)


def offset_of(schedule: Schedule) -> float:
    """Seconds after its nominal instants at which the schedule is due; always the same for one schedule."""
    if schedule.spread_s < 1:
        return 0.0
    number = int.from_bytes(hashlib.sha256(f"spread:{schedule.uuid}".encode()).digest()[:8])
    return float(number % int(schedule.spread_s))


def instant_name(nominal_at: float) -> str:
    """`20261121T020000Z`: the nominal instant in submission keys."""
    return datetime.datetime.fromtimestamp(nominal_at, datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
