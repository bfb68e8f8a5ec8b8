"""The five words of cron: what they may be, and which instants they name.

Theory. The library cronsim reads the words; times that are named by hour and minute keep to Debian's cron on the nights
when clocks are set: a time that is skipped comes at the end of the gap, one that comes twice counts once. Words with a
`*` in minute or hour go by real time. Ours are `@daily` and its like, and `H`: a value that is always the same for a
schedule, and differs from schedule to schedule.

cronsim walks by the clock on the wall. On such a night it may begin beside the instant asked for: for named times the
walk begins well before it, and what does not fit is passed over. And it walks in whole hours, while some zones are set
by half an hour: for words that go by real time each minute of such a night is looked at here.

Source: everyday.md sections c and j.
"""

import datetime
import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from common.errors import InvalidRequest

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
