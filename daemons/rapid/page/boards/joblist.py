"""The list of jobs: a filter, fifty rows, and the pages after them."""

import time
from typing import Final

import attrs

from common.errors import InvalidRequest
from common.query.qlang import Expression
from common.webaccess.rights import Right
from common.words.filters.jobfilter import COMPARED, job_filter
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import ClusterNow, ToldJobs, page_of_jobs, told
from daemons.rapid.page.views.boards import JobList
from daemons.rapid.page.views.frame import Act, Choice, with_query
from daemons.rapid.page.views.jobview import ROW_FIELDS, job_lines
from protocol.metrics import DaemonMetrics
from protocol.rapid.events import Topic

ROWS: Final = 50
_CHOICES: Final = (
    ("all", ""),
    ("queued", "status=queued"),
    ("waiting", "status=waiting"),
    ("running", "status=running"),
    ("failed", "status=error"),
)
_COMPARED: Final = ", ".join([*COMPARED, "label.KEY"])


@attrs.frozen
class JobListFacts:
    metrics: DaemonMetrics
    where: str
    after: int | None
    jobs: ToldJobs
    has_more: bool
    acts: tuple[Act, ...]
    # why the filter cannot be used; "": it can
    wrong: str = ""


BOARD: Final[Board[JobListFacts]] = Board(
    "jobs",
    "/ui/jobs",
    (Right.JOBS_READ,),
    "The page with the list of jobs.",
    ("health", "joblist"),
    lambda asked, now: read(asked, now),
    lambda facts, now: view(facts, now),
    lambda facts: f"Jobs: {facts.where}" if facts.where else "Jobs",
    lambda facts: interest(facts),
)


async def read(asked: Asked, now: ClusterNow) -> JobListFacts:
    where = asked.http.query_params.get("where", "").strip()
    after = _after(asked)
    nothing = JobListFacts(now.metrics, where, after, ToldJobs((), {}, {}), False, acts_of(asked))
    try:
        filter = filter_of(where)
        rows = await page_of_jobs(asked.daemons, ROW_FIELDS, filter, limit=ROWS + 1, after=after)
    except InvalidRequest as error:
        return attrs.evolve(nothing, wrong=error.message)
    jobs = await told(asked.daemons, rows[:ROWS])
    return attrs.evolve(nothing, jobs=jobs, has_more=len(rows) > ROWS)


def interest(facts: JobListFacts) -> Interest:
    """All jobs on the first page, where new ones come; on others those that are shown."""
    ids = None if facts.after is None else [row["id"] for row in facts.jobs.rows]
    return Interest.of(Topic.JOBS, Topic.REASONS, job_ids=ids)


def filter_of(where: str) -> Expression | None:
    """The filter of jobs that people typed; None: all. Raises: InvalidRequest: it cannot be read."""
    return Expression.from_wire(job_filter(where, time.time(), None)) if where else None


def _after(asked: Asked) -> int | None:
    text = asked.http.query_params.get("after", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def acts_of(asked: Asked) -> tuple[Act, ...]:
    """The changes of jobs for which the caller has the right."""
    acts = []
    if may(asked, Right.JOBS_CANCEL, Right.JOBS_SUBMIT):
        acts += [Act("/ui/jobs/cancel", "cancel"), Act("/ui/jobs/kill", "kill", is_grave=True)]
    if may(asked, Right.JOBS_PRIORITY, Right.JOBS_SUBMIT):
        acts += [Act(f"/ui/jobs/{verb}", verb) for verb in ("priority", "hold", "release")]
    return tuple(acts)


def view(facts: JobListFacts, now: float) -> JobList:
    lines = job_lines(facts.jobs.rows, facts.jobs.reasons, facts.jobs.outcomes, now, login_of)
    total = facts.metrics.number("jobs")
    shown = f"{lines[0].job_id} to {lines[-1].job_id}" if lines else ""
    return JobList(
        facts.where,
        facts.wrong,
        f"{len(lines)} on this page, {total:,} in the queue",
        lines,
        _address(facts.where, None) if facts.after is not None else None,
        _address(facts.where, lines[-1].job_id) if facts.has_more and lines else None,
        shown,
        tuple(Choice(text, _address(where, None), where == facts.where) for text, where in _CHOICES),
        facts.acts,
        _COMPARED,
    )


def _address(where: str, after: int | None) -> str:
    return with_query("/ui/jobs", [("where", where), ("after", after)])
