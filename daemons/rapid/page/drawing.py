"""Drawings: where each shape stands, in numbers; the templates write them as SVG."""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

# Curves of figures over time.


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
class AxisLine:
    """A line of the axis of values."""

    # per cent from the top
    y: float
    value: float


@attrs.frozen
class Chart:
    # seconds since the epoch
    instants: tuple[float, ...]
    curves: tuple[Curve, ...]
    levels: tuple[AxisLine, ...]
    top: float


def draw_chart(instants: Sequence[float], series: Sequence[tuple[str, str, Sequence[float | None]]]) -> Chart:
    """Draw the series over their instants.

    Args:
        series: (name, class, one value for each instant); None: it is not known.
    """
    top = nice_top(max((value for _, _, values in series for value in values if value is not None), default=0.0))
    curves = tuple(Curve(name, kind, _points(instants, values, top), tuple(values)) for name, kind, values in series)
    levels = tuple(AxisLine(100.0 - part * 50.0, round(top * part / 2, 6)) for part in range(3))
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


# The timeline: jobs as bars in lanes, waiting and running in different colours.
#
# Theory. Horizontal places are per cent of the window, so that the drawing fits every width without a script; vertical
# ones are pixels. In a lane, bars that overlap in time stand in rows one below the other; of a lane with more rows than
# `MOST_ROWS` the rest is only counted.


ROW_HEIGHT: Final = 22
AXIS_HEIGHT: Final = 20
MOST_ROWS: Final = 4
_LANE_GAP: Final = 6
# seconds between marks of the axis
_TIME_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_MOST_MARKS: Final = 7


class BarPhase(enum.Enum):
    """What a job did in a part of its bar; the value is a class of the style sheet."""

    WAIT = "wait"
    RUN = "run"


@attrs.frozen
class Stretch:
    """A part of a job's life, in seconds since the epoch."""

    phase: BarPhase
    since: float
    until: float


@attrs.frozen
class JobBar:
    """A job in the timeline."""

    job_id: int
    # bars with the same text share a lane
    lane: str
    # for people who cannot see the drawing
    told: str
    # as users read it
    status: str
    stretches: tuple[Stretch, ...]

    @property
    def since(self) -> float:
        return self.stretches[0].since

    @property
    def until(self) -> float:
        return self.stretches[-1].until


@attrs.frozen
class Block:
    phase: str
    # per cent
    x: float
    width: float


@attrs.frozen
class Bar:
    job_id: int
    told: str
    status: str
    x: float
    width: float
    # pixels
    y: int
    blocks: tuple[Block, ...]


@attrs.frozen
class Lane:
    name: str
    y: int
    height: int
    bars: tuple[Bar, ...]
    # number of bars for which there was no row
    more: int


@attrs.frozen
class AxisMark:
    x: float
    # seconds since the epoch
    at: int


@attrs.frozen
class Timeline:
    lanes: tuple[Lane, ...]
    marks: tuple[AxisMark, ...]
    height: int


def draw_timeline(lives: Iterable[JobBar], since: float, until: float) -> Timeline:
    """Draw the jobs that lived in this window; lanes in the order of their first job.

    Args: lives: each with at least one stretch, stretches in order.
    """
    lanes: dict[str, list[JobBar]] = {}
    for life in lives:
        if life.until >= since and life.since <= until:
            lanes.setdefault(life.lane, []).append(life)
    drawn, y = [], AXIS_HEIGHT
    for name, members in lanes.items():
        lane = _lane(name, members, y, since, until)
        drawn.append(lane)
        y += lane.height + _LANE_GAP
    return Timeline(tuple(drawn), _marks(since, until), y)


def _lane(name: str, members: Sequence[JobBar], y: int, since: float, until: float) -> Lane:
    rows: list[float] = []
    bars: list[Bar] = []
    more = 0
    for life in sorted(members, key=lambda each: each.since):
        row = next((at for at, end in enumerate(rows) if end <= life.since), len(rows))
        if row == MOST_ROWS:
            more += 1
            continue
        rows[row : row + 1] = [life.until]
        bars.append(_bar(life, y + row * ROW_HEIGHT, since, until))
    return Lane(name, y, len(rows) * ROW_HEIGHT, tuple(bars), more)


def _bar(life: JobBar, y: int, since: float, until: float) -> Bar:
    blocks = tuple(
        Block(each.phase.value, x, _wide(x, each.until, since, until))
        for each in life.stretches
        if each.until >= since and each.since <= until
        for x in (_place(each.since, since, until),)
    )
    x = _place(life.since, since, until)
    return Bar(life.job_id, life.told, life.status, x, _wide(x, life.until, since, until), y, blocks)


def _wide(x: float, end: float, since: float, until: float) -> float:
    # a very short job still is to be seen
    return round(max(_place(end, since, until) - x, 0.2), 2)


def _place(at: float, since: float, until: float) -> float:
    """The instant as per cent of the window; what lies outside is moved to its edge."""
    return round(min(max((at - since) / (until - since), 0.0), 1.0) * 100, 2)


def _marks(since: float, until: float) -> tuple[AxisMark, ...]:
    length = until - since
    step = next((step for step in _TIME_STEPS if length / step <= _MOST_MARKS), _TIME_STEPS[-1])
    first = int(since // step + 1) * step
    return tuple(AxisMark(_place(at, since, until), at) for at in range(first, int(until) + 1, step))
