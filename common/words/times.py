"""Instants and durations as text for people."""

import datetime
import time
from collections.abc import Mapping
from math import inf
from typing import Final

from common.queue import jobs

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def to_seconds(stamp: object) -> float | None:
    """Convert `[seconds, microseconds]` of the wire to seconds since the epoch; None if it is unset."""
    match stamp:
        case [int() as seconds, int() as microseconds]:
            return jobs.to_seconds((seconds, microseconds))
        case _:
            return None


def clock(seconds: float) -> str:
    """`2026-03-01 12:00:00 +0200`: local time with its zone, as every command tells an instant to people."""
    return f"{bare_clock(seconds)} {zone_mark(seconds)}"


def zone_mark(seconds: float) -> str:
    """`+0200`, `UTC`: how far local time then is from UTC."""
    local = time.localtime(seconds)
    return "UTC" if local.tm_zone == "UTC" else time.strftime("%z", local)


def zone_words(seconds: float) -> str:
    """`UTC`, `CEST, UTC+0200`: the name of the zone of local time then, and how far it is from UTC."""
    name, mark = time.localtime(seconds).tm_zone, zone_mark(seconds)
    if mark == "UTC":
        return mark
    # some zones have no name but this
    return f"UTC{mark}" if name[:1] in "+-" else f"{name}, UTC{mark}"


def zone_offset(seconds: float) -> int:
    """Seconds by which local time then is ahead of UTC."""
    return time.localtime(seconds).tm_gmtoff


def bare_clock(seconds: float) -> str:
    """`2026-03-01 12:00:00` in local time, where all is of one zone that is told elsewhere."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def tenths_clock(seconds: float) -> str:
    """`2026-03-01 12:00:00.4` in local time."""
    return f"{bare_clock(int(seconds))}.{int(seconds * 10) % 10}"


def precise_clock(seconds: float) -> str:
    """`2026-03-01 12:00:00.412000` in local time."""
    whole = int(seconds)
    return f"{bare_clock(whole)}.{round((seconds - whole) * 1e6):06d}"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m12s`, `2h05m`, `3d04h`: the two largest units."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def seconds_of(text: str) -> float | None:
    """The seconds of `90`, `90s`, `1.5m`, `2h`, `7d`, `1w`; None: the text is no duration, or beyond all numbers."""
    number, factor = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not (number.replace(".", "", 1).isdecimal() and number.isascii()):
        return None
    seconds = float(number) * factor
    return seconds if seconds < inf else None


def iso(seconds: float) -> str:
    """`2026-03-01T12:00:00.412+02:00`: local time, with its offset."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone().isoformat(timespec="milliseconds")


def with_iso(row: Mapping[str, object]) -> dict[str, object]:
    """The fields of a thing in their wire form, with each instant beside as a text, under its name without `_ts`."""
    told = dict(row)
    for name, value in row.items():
        if name.endswith("_ts") and name.removesuffix("_ts") not in row:
            seconds = to_seconds(value)
            told[name.removesuffix("_ts")] = None if seconds is None else iso(seconds)
    return told
