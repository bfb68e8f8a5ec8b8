"""Durations as they are typed at the command line."""

from typing import Final

import click

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Seconds, with an optional suffix: `90`, `1.5m`, `2h`, `7d`, `1w`."""

    name = "duration"

    def __init__(self, *, is_positive: bool = False) -> None:
        self._is_positive = is_positive

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        number, factor = (value[:-1], _UNITS[value[-1]]) if value[-1:] in _UNITS else (value, 1)
        try:
            seconds = float(number) * factor
        except ValueError:
            seconds = -1.0
        # this form refuses nan as well
        if not 0 <= seconds < 1e12:
            self.fail(
                f"'{value}' is not a duration; write seconds, or a number with s, m, h, d or w, as in 90s", param, ctx
            )
        if self._is_positive and seconds == 0:
            self.fail(f"'{value}' is too short; it must be longer than 0", param, ctx)
        return seconds


DURATION: Final = DurationType()
POSITIVE_DURATION: Final = DurationType(is_positive=True)
