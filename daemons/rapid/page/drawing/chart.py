"""Curves of figures over time."""

from collections.abc import Sequence
from typing import Final

import attrs

# steps of the axis of values, times powers of ten
_STEPS: Final = (1, 2, 5, 10)


@attrs.frozen
class Curve:
    name: str
    # class of the style sheet
    kind: str
    # points of a polyline in a square of 100 by 100, x y, x y
    points: str
    # one for each instant; None: it is not known
    values: tuple[float | None, ...]


@attrs.frozen
class Level:
    """A line of the axis of values."""

    # per cent from the top
    y: float
    value: float


@attrs.frozen
class Chart:
    # seconds since the epoch
    instants: tuple[float, ...]
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...]
    top: float


def draw_chart(instants: Sequence[float], series: Sequence[tuple[str, str, Sequence[float | None]]]) -> Chart:
    """Draw the series over their instants.

    Args:
        series: (name, class, one value for each instant); None: it is not known.
    """
    top = nice_top(max((value for _, _, values in series for value in values if value is not None), default=0.0))
    curves = tuple(Curve(name, kind, _points(instants, values, top), tuple(values)) for name, kind, values in series)
    levels = tuple(Level(100.0 - part * 50.0, round(top * part / 2, 6)) for part in range(3))
    return Chart(tuple(instants), curves, levels, top)


def _points(instants: Sequence[float], values: Sequence[float | None], top: float) -> str:
    if len(instants) < 2:
        return ""
    first, length = instants[0], (instants[-1] - instants[0]) or 1.0
    placed = (
        f"{(at - first) / length * 100:.2f},{100 - value / top * 100:.2f}"
        for at, value in zip(instants, values, strict=True)
        if value is not None
    )
    return " ".join(placed)


def nice_top(highest: float) -> float:
    """A round number that is not smaller."""
    if highest <= 0:
        return 1.0
    power = 1.0
    while power * 10 < highest:
        power *= 10
    while power > highest:
        power /= 10
    return next(step * power for step in _STEPS if step * power >= highest)
