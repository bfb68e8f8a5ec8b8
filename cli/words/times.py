"""Instants and durations in the words of the screen, and as the user types them."""

import time
from typing import Any, Final

import click

from common.queue import jobs

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def to_seconds(stamp: Any) -> float | None:
    """`[seconds, microseconds]` of the wire as seconds since the epoch; None if it is unset."""
    match stamp:
        case [int() as seconds, int() as microseconds]:
            return jobs.to_seconds((seconds, microseconds))
    return None


def clock(seconds: float) -> str:
    """`2026-03-01 12:00:00` of the place where we are."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def precise_clock(seconds: float) -> str:
    """The same with microseconds."""
    whole = int(seconds)
    return f"{clock(whole)}.{round((seconds - whole) * 1e6):06d}"


def duration(seconds: float) -> str:
    """`0.4s`, `12s`, `3m12s`, `2h05m`, `3d04h`: two figures that matter."""
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


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Seconds, with an optional suffix: `90`, `1.5m`, `2h`, `7d`, `1w`."""

    name = "duration"

    def __init__(self, *, is_positive: bool = False) -> None:
        self._is_positive = is_positive

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        number, factor = (value[:-1], _UNITS[value[-1]]) if value[-1:] in _UNITS else (value, 1)
        try:
            seconds = float(number) * factor
        except ValueError:
            seconds = -1.0
        # not (...): refuses nan as well
        if not 0 <= seconds < 1e12:
            self.fail(
                f"'{value}' is no duration; write seconds, or a number with s, m, h, d or w, as in 90s", param, ctx
            )
        if self._is_positive and seconds == 0:
            self.fail(f"'{value}' is no time at all; it must be longer than 0", param, ctx)
        return seconds


DURATION: Final = DurationType()
POSITIVE_DURATION: Final = DurationType(is_positive=True)
