"""Ended jobs and sums over them, as the page of the history shows them."""

from collections.abc import Sequence

import attrs

from common.words.times import bare_clock, duration
from daemons.rapid.page.views.frame import Choice
from daemons.rapid.page.views.links import Piece, job_href
from daemons.rapid.page.views.termview import label_pieces
from protocol.luxi.history import EndedJob, PastSum


@attrs.frozen
class PastLine:
    job_id: int
    href: str
    status: str
    name: str
    summary: str
    labels: tuple[Piece, ...]
    user: str
    ended: str
    wait: str
    run: str
    tries: int
    why: str


@attrs.frozen
class SumLine:
    group: str
    count: int
    failed: int
    canceled: int
    retried: int
    # mean wait, 95th of 100, mean run, 95th of 100, longest
    times: tuple[str, ...]

    @property
    def percent(self) -> int:
        return round(100 * self.failed / self.count) if self.count else 0


@attrs.frozen
class PastView:
    """The choice of ended jobs, and what it finds."""

    since: str
    where: str
    # why the choice cannot be used; "": it can
    wrong: str
    by: str
    choices: tuple[Choice, ...]
    sums: tuple[SumLine, ...]
    told: str
    lines: tuple[PastLine, ...]
    # addresses of the first and the next page; None: it is this one, there is none
    first: str | None
    older: str | None


def past_lines(jobs: Sequence[EndedJob]) -> tuple[PastLine, ...]:
    return tuple(
        PastLine(
            job.id,
            job_href(job.id),
            job.status.value,
            job.name,
            job.summary,
            label_pieces(job.labels),
            job.user,
            "" if job.end_at is None else bare_clock(job.end_at),
            _lasting(job.wait_s),
            _lasting(job.run_s),
            job.tries,
            job.why,
        )
        for job in jobs
    )


def sum_lines(sums: Sequence[PastSum]) -> tuple[SumLine, ...]:
    return tuple(
        SumLine(
            each.group or "-",
            each.count,
            each.failed,
            each.canceled,
            each.retried,
            tuple(map(_lasting, (each.mean_wait_s, each.p95_wait_s, each.mean_run_s, each.p95_run_s, each.most_run_s))),
        )
        for each in sums
    )


def _lasting(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)
