"""The comparison as a table of text or as JSON."""

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from daemons.luxid.simulate.measures import Measures
from daemons.luxid.simulate.replay import Limits

_HEADER: Final = ("POLICY", "MAKESPAN", "MEAN WAIT", "P95 WAIT", "LONGEST", "STARVATION", "BLOCKED", "SHARE")


@attrs.frozen
class Comparison:
    # origin of the trace, and its number of jobs
    source: str
    count: int
    limits: Limits
    rows: tuple[Measures, ...]


def text(comparison: Comparison) -> Iterator[str]:
    """The lines of the table; times in seconds."""
    yield f"{comparison.source}: {comparison.count} jobs, {comparison.limits.slots} slots; times in seconds"
    cells = [_HEADER, *map(_cells, comparison.rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_HEADER))]
    for row in cells:
        yield "  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])))


def json_value(comparison: Comparison) -> dict[str, object]:
    """All values, rounded only to the resolution of clocks."""
    rows = [{key: _rounded(value) for key, value in attrs.asdict(row).items()} for row in comparison.rows]
    return {
        "source": comparison.source,
        "jobs": comparison.count,
        "slots": comparison.limits.slots,
        "max_bypass": comparison.limits.max_bypass,
        "policies": rows,
    }


def _cells(row: Measures) -> Sequence[str]:
    times = (row.makespan_s, row.mean_wait_s, row.p95_wait_s, row.longest_wait_s)
    starvation = "-" if row.starvation is None else f"{row.starvation:.2f}"
    return (
        row.policy,
        *(f"{each:.1f}" for each in times),
        starvation,
        f"{row.blocked_s:.1f}",
        f"{row.blocked_share:.0%}",
    )


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value
