"""Ended jobs and sums over them, as tables and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from cli.knownlogins import known_login
from cli.tables import Column, Layout, render, status_style
from common.words.times import clock, duration, iso
from common.words.usernames import asker_named
from protocol.luxi.history import EndedJob, Grouping, PastSum

# instants of a job, by their names in JSON
_INSTANTS: Final = ("received", "eligible", "start", "end")
# columns of a terminal below which instants and titles are short
_WIDE: Final = 106
_HEADS: Final = (
    *("COUNT", "FAILED", "CANCELED", "RETRIED"),
    *("MEAN WAIT", "P95 WAIT", "MEAN RUN", "P95 RUN", "MOST RUN"),
)
_SHORT_HEADS: Final = ("JOBS", "FAILED", "CANCELED", "RETRIED", "WAIT", "P95", "RUN", "P95", "MOST")
_COLUMNS: Final = (
    Column("ID", is_number=True),
    Column("STATUS", style=status_style),
    Column("NAME"),
    Column("USER"),
    Column("ENDED", is_whole=True),
    Column("WAIT", is_number=True),
    Column("RUN", is_number=True),
    Column("TRIES", is_number=True),
    Column("WHY"),
)


def job_lines(jobs: Sequence[EndedJob], layout: Layout) -> Iterator[str]:
    """A table of ended jobs."""
    is_short = _is_narrow(layout) and len({_ended(job)[:4] for job in jobs if job.end_at is not None}) == 1
    return render(_COLUMNS, (_job_cells(job, is_short=is_short) for job in jobs), layout)


def job_json(job: EndedJob) -> dict[str, object]:
    """The job in its wire form, all fields, with its instants as ISO texts beside, and users by name as in tables."""
    wire = {**attrs.asdict(job), "status": job.status.value, "why": asker_named(job.why, known_login)}
    times = {name: None if (at := wire[f"{name}_at"]) is None else iso(at) for name in _INSTANTS}
    return {**wire, **times}


def sum_lines(sums: Iterable[PastSum], by: Grouping, label: str, layout: Layout) -> Iterator[str]:
    """A table of sums."""
    title = label.upper() if by is Grouping.LABEL else by.value.upper()
    heads = _SHORT_HEADS if _is_narrow(layout) else _HEADS
    columns = (Column(title), *(Column(head, is_number=True) for head in heads))
    return render(columns, map(_sum_cells, sums), layout)


def _sum_cells(each: PastSum) -> list[str]:
    counts = (each.count, each.failed, each.canceled, each.retried)
    times = (each.mean_wait_s, each.p95_wait_s, each.mean_run_s, each.p95_run_s, each.most_run_s)
    return [each.group, *map(str, counts), *map(_length, times)]


def _is_narrow(layout: Layout) -> bool:
    return layout.width is not None and layout.width < _WIDE


def _ended(job: EndedJob) -> str:
    return "" if job.end_at is None else clock(job.end_at)


def _job_cells(job: EndedJob, *, is_short: bool) -> list[str]:
    """Args: is_short: without the year and the seconds of its end."""
    ended = _ended(job)[5:16] if is_short else _ended(job)
    times = (_length(job.wait_s), _length(job.run_s))
    return [
        str(job.id),
        job.status.value,
        job.name,
        job.user,
        ended,
        *times,
        str(job.tries),
        asker_named(job.why, known_login),
    ]


def _length(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)
