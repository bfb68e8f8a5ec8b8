"""Cron words without a library: each minute of the real time is looked at. For a few days at a time."""

import datetime
import functools

MINUTE = datetime.timedelta(minutes=1)
_ENDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def instants(words: str, zone: datetime.tzinfo, begin: float, end: float) -> list[float]:
    """The nominal instants from `begin` to before `end`, both whole minutes."""
    fields = words.split()
    values = [_values(field, *ends) for field, ends in zip(fields, _ENDS, strict=True)]
    if fields[0].startswith("*") or fields[1].startswith("*"):
        found = {at for at, local in _minutes(zone, begin, end) if _fits(fields, values, local)}
    else:
        found = _fixed(fields, values, zone, begin, end)
    return sorted(found)


def _fixed(fields: list[str], values: list[set[int]], zone: datetime.tzinfo, begin: float, end: float) -> set[float]:
    """Each minute of the clock on the wall once: the first of two, and the end of the gap for one that is skipped."""
    found = set()
    wall = _local(begin, zone).replace(tzinfo=None, hour=0, minute=0) - datetime.timedelta(hours=26)
    last = _local(end, zone).replace(tzinfo=None) + datetime.timedelta(hours=26)
    while wall < last:
        if _fits(fields, values, wall):
            real = wall
            while not _exists(real, zone):
                real += MINUTE
            found.add(real.replace(tzinfo=zone).timestamp())
        wall += MINUTE
    return {at for at in found if begin <= at < end}


def _exists(wall: datetime.datetime, zone: datetime.tzinfo) -> bool:
    there = wall.replace(tzinfo=zone).astimezone(datetime.UTC)
    return there.astimezone(zone).replace(tzinfo=None) == wall


def _fits(fields: list[str], values: list[set[int]], local: datetime.datetime) -> bool:
    minute, hour, day, month, weekday = values
    if local.minute not in minute or local.hour not in hour or local.month not in month:
        return False
    by_day, by_week = local.day in day, local.isoweekday() % 7 in {each % 7 for each in weekday}
    both = fields[2].startswith("*") or fields[4].startswith("*")
    return by_day and by_week if both else by_day or by_week


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = ("*", "", "") if span == "*" else span.partition("-")
        start = low if first == "*" else int(first)
        end = high if first == "*" or (step and not last) else int(last or first)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


@functools.cache
def _minutes(zone: datetime.tzinfo, begin: float, end: float) -> list[tuple[float, datetime.datetime]]:
    """Each minute of the real time, and what the clock on the wall shows."""
    return [(at, _local(at, zone)) for at in range(int(begin), int(end), 60)]


def _local(at: float, zone: datetime.tzinfo) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at, zone)
