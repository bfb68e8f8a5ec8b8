"""Instants as people write them: `tomorrow 02:00`, `in 3h`, `2h ago`, `monday 9:30`, `2026-11-21 02:00`.

    now, @1790000000                     in 3h, +2h, in 1h 30m, in 2 days     2h ago, 3 days ago     2h, 3 days
    today, tomorrow 02:00, yesterday     monday, next fri 9:30, last sunday   14:00, 2pm, noon, midnight
    2026-11-21, 2026-11-21 02:00:30, 2026-11-21T02:00Z, 2026-11-21 02:00+02:00

A day without a time is its midnight. A weekday or a time without a day is the next one, or the latest one where the
past is meant; a duration alone lies on the same side. A duration is real time: `in 1d` is 24 hours. A local time that
does not exist, because clocks are put forward, is the end of the gap; of one that exists twice the first is meant.

Source: DESIGN section 16; everyday.md sections c, j.
"""

import enum
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Final

from common.errors import InvalidRequest
from common.queue.terms import LATEST_S

_DAY_WORDS: Final = {"today": 0, "tomorrow": 1, "yesterday": -1}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTEST_WEEKDAY: Final = 3
_TIME_WORDS: Final = {"midnight": time(0), "noon": time(12)}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_UNIT: Final = r"(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
_PART: Final = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,6}})?) ?{_UNIT} ?", re.ASCII)
_DURATION: Final = re.compile(rf"(?:\d{{1,9}}(?:\.\d{{1,6}})? ?{_UNIT} ?)+", re.ASCII)
_EPOCH: Final = re.compile(r"@(\d{1,12}(?:\.\d{1,9})?)", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d)(\.\d{1,6})?)?)?(?: ?(am|pm))?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:(?: at | |t)(.+))?", re.ASCII)
_ZONE: Final = re.compile(r"(.*\d) ?(z|utc|gmt|[+-]\d\d(?::?\d\d)?)", re.ASCII)
_FORMS: Final = "for example 'tomorrow 02:00', 'in 3h', '2h ago', 'monday 9:30' or '2026-11-21 02:00'"


class Toward(enum.Enum):
    """Which one is meant by a weekday, a time without a day, or a duration alone."""

    # the first after now
    FUTURE = 1
    # the last that is not after now
    PAST = -1


def parse_instant(text: str, now: float, zone: tzinfo | None, toward: Toward = Toward.FUTURE) -> float:
    """The instant that a text means, in seconds since the epoch.

    Args:
        now: seconds since the epoch.
        zone: the zone of local times; None: this machine's.
    Raises: InvalidRequest: the text means no instant, or one before 1970 or after the year 9999.
    """
    words = " ".join(text.lower().split())
    try:
        found = _fixed(words, now, toward)
        if found is None:
            found = _local(words, now, zone, toward)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None:
        raise InvalidRequest(f"'{text:.60}' is not a time; {_FORMS}")
    if not 0 <= found <= LATEST_S:
        raise InvalidRequest(f"'{text:.60}' is before 1970 or after the year 9999")
    return found


def instant_of(wall: datetime, zone: tzinfo | None) -> float:
    """The instant of a local time without a zone: in a gap the gap's end, of a doubled hour the first.

    Raises: OverflowError, ValueError, OSError: the machine cannot reckon with it.
    """
    found = wall.replace(tzinfo=zone, fold=0).timestamp()
    if wall_of(found, zone) == wall:
        return found
    # in a gap Python takes the offset of before, so this is after the gap; with the other fold it is before the gap
    late, early = found, wall.replace(tzinfo=zone, fold=1).timestamp()
    offset = _offset(late, zone)
    before, after = int(min(early, late)) - 1, int(max(early, late)) + 1
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if _offset(middle, zone) == offset else (middle, after)
    return float(after)


def wall_of(instant: float, zone: tzinfo | None) -> datetime:
    """The local time of an instant, without its zone."""
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0)


def _offset(instant: float, zone: tzinfo | None) -> timedelta:
    return wall_of(instant, zone) - datetime.fromtimestamp(instant, UTC).replace(tzinfo=None)


def _fixed(words: str, now: float, toward: Toward) -> float | None:
    """An instant that needs no calendar; None: the words are of another form."""
    if words == "now":
        return now
    if (match := _EPOCH.fullmatch(words)) is not None:
        return float(match[1])
    for ahead in ("in ", "+"):
        if words.startswith(ahead) and (length := _length(words.removeprefix(ahead).strip())) is not None:
            return now + length
    if words.endswith(" ago") and (length := _length(words.removesuffix(" ago"))) is not None:
        return now - length
    length = _length(words)
    return None if length is None else now + toward.value * length


def _length(words: str) -> float | None:
    """Seconds of `90s`, `1h 30m`, `2 days`; None: no duration."""
    if _DURATION.fullmatch(words) is None:
        return None
    return sum(float(number) * _UNITS[unit[0]] for number, unit in _PART.findall(words))


def _local(words: str, now: float, zone: tzinfo | None, toward: Toward) -> float | None:
    """Raises: ValueError: such a day or time does not exist."""
    if (match := _DATE.fullmatch(words)) is not None:
        day = date(int(match[1]), int(match[2]), int(match[3]))
        return _at(day, match[4] or "midnight", zone)
    here = wall_of(now, zone)
    if _is_clock(words):
        return _nearest(here.date(), words, now, zone, toward)
    which, _, rest = words.partition(" ")
    if which in _DAY_WORDS:
        return _at(here.date() + timedelta(days=_DAY_WORDS[which]), _clock_words(rest), zone)
    if which in ("next", "last"):
        toward = Toward.FUTURE if which == "next" else Toward.PAST
        which, _, rest = rest.partition(" ")
    weekday = _weekday(which)
    return None if weekday is None else _on_weekday(weekday, _clock_words(rest), now, zone, toward)


def _clock_words(rest: str) -> str:
    return rest.removeprefix("at ") or "midnight"


def _nearest(day: date, clock: str, now: float, zone: tzinfo | None, toward: Toward) -> float | None:
    """The next or the latest such time of any day, which in its own zone may be another one than here."""
    found = [_at(day + timedelta(days=away), clock, zone) for away in range(-2, 3)]
    return _choose([each for each in found if each is not None], now, toward)


def _on_weekday(weekday: int, clock: str, now: float, zone: tzinfo | None, toward: Toward) -> float | None:
    today = wall_of(now, zone).date()
    first = today + timedelta(days=(weekday - today.weekday()) % 7 - 7)
    found = [_at(first + timedelta(days=away), clock, zone) for away in (0, 7, 14)]
    return _choose([each for each in found if each is not None], now, toward)


def _choose(found: list[float], now: float, toward: Toward) -> float | None:
    if toward is Toward.FUTURE:
        return min((each for each in found if each > now), default=None)
    return max((each for each in found if each <= now), default=None)


def _weekday(word: str) -> int | None:
    if len(word) < _SHORTEST_WEEKDAY:
        return None
    return next((place for place, name in enumerate(_WEEKDAYS) if name.startswith(word)), None)


def _at(day: date, clock: str, zone: tzinfo | None) -> float | None:
    """Raises: ValueError: no such time, or offset."""
    if (match := _ZONE.fullmatch(clock)) is not None:
        clock, zone = match[1], _zone(match[2])
    found = _read_time(clock)
    return None if found is None else instant_of(datetime.combine(day, found), zone)


def _is_clock(words: str) -> bool:
    match = _ZONE.fullmatch(words)
    return _read_time(words if match is None else match[1]) is not None


def _zone(word: str) -> tzinfo:
    if word in ("z", "utc", "gmt"):
        return UTC
    hours, minutes = int(word[1:3]), int(word[3:].removeprefix(":") or 0)
    length = timedelta(hours=hours, minutes=minutes)
    return timezone(-length if word[0] == "-" else length)


def _read_time(clock: str) -> time | None:
    """Raises: ValueError: an hour, minute or second is too large."""
    if clock in _TIME_WORDS:
        return _TIME_WORDS[clock]
    match = _TIME.fullmatch(clock)
    # a bare number is no time
    if match is None or not (match[2] or match[5]):
        return None
    hour, half = int(match[1]), match[5]
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(match[2] or 0), int(match[3] or 0), round(float(match[4] or 0) * 1e6) % 1_000_000)
