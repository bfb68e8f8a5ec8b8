"""The list of jobs: a filter or words, how many match, fifty rows, and the pages after them."""

import time
from typing import Final

import attrs
from starlette.responses import Response

from common.errors import InvalidRequest
from common.ids import read_number
from common.query.qlang import Expression
from common.webaccess.rights import Right
from common.words.filters.jobfilter import COMPARED, search_filter
from daemons.rapid.calls import Asked
from daemons.rapid.page import replies
from daemons.rapid.page.acts import ACTIONS, RERUN
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import ClusterNow, ExplainedJobs, told
from daemons.rapid.page.views.boards import JobList
from daemons.rapid.page.views.frame import Act, Choice, job_href, with_query
from daemons.rapid.page.views.jobview import ROW_FIELDS, job_lines
from daemons.rapid.resources.joblists import jobs_by_id, page_of_jobs
from protocol.metrics import DaemonMetrics
from protocol.rapid.events import Topic

ROWS: Final = 50
# matches that are counted; more are told as more
_MOST_COUNTED: Final = 1000
_CHOICES: Final = (
    ("all", ""),
    ("queued", "status=queued"),
    ("waiting", "status=waiting"),
    ("running", "status=running"),
    ("failed", "status=error"),
)
_COMPARED: Final = (*COMPARED, "label.KEY")


@attrs.frozen
class JobListFacts:
    metrics: DaemonMetrics
    where: str
    after: int | None
    jobs: ExplainedJobs
    has_more: bool
    acts: tuple[Act, ...]
    # jobs from the first of this page on that match the filter, at most one more than are counted; None: all match
    matches: int | None = None
    # why the filter cannot be used; "": it can
    wrong: str = ""


async def read(asked: Asked, now: ClusterNow) -> JobListFacts:
    where = asked.http.query_params.get("where", "").strip()
    after = read_number(asked.http.query_params.get("after", ""))
    nothing = JobListFacts(now.metrics, where, after, ExplainedJobs((), {}, {}), False, acts_of(asked))
    try:
        filter = filter_of(where)
        limit = ROWS if filter is None else _MOST_COUNTED
        # ids first: one search finds the rows and counts the others
        found = await page_of_jobs(asked.daemons, ("id", "status"), filter, limit=limit + 1, after=after)
    except InvalidRequest as error:
        return attrs.evolve(nothing, wrong=error.message)
    rows = await jobs_by_id(asked.daemons, [row["id"] for row in found[:ROWS]], ROW_FIELDS)
    return attrs.evolve(
        nothing,
        jobs=await told(asked.daemons, rows),
        has_more=len(found) > ROWS,
        matches=None if filter is None else len(found),
    )


def interest(facts: JobListFacts) -> Interest:
    """All jobs on the first page, where new ones come; on others those that are shown."""
    ids = None if facts.after is None else [row["id"] for row in facts.jobs.rows]
    return Interest.of(Topic.JOBS, Topic.REASONS, job_ids=ids)


def filter_of(where: str) -> Expression | None:
    """The filter or the words that people typed; None: all jobs. Raises: InvalidRequest: it cannot be read."""
    return Expression.from_wire(search_filter(where, time.time(), None)) if where else None


async def find(asked: Asked) -> Response:
    """Lead to the job with this id, else to the list of what matches."""
    text = asked.http.query_params.get("where", "").strip()
    job_id = read_number(text)
    if job_id is not None and await jobs_by_id(asked.daemons, [job_id], ("id", "status")):
        return replies.see(job_href(job_id))
    return replies.see(_address(text, None))


def acts_of(asked: Asked) -> tuple[Act, ...]:
    """The changes of jobs for which the caller has the right."""
    deeds = (action for action in ACTIONS if may(asked, *action.rights))
    return tuple(Act(action.href, action.button, action.is_grave, action.is_for_ended) for action in deeds)


def view(facts: JobListFacts, now: float) -> JobList:
    lines = job_lines(facts.jobs.rows, facts.jobs.reasons, facts.jobs.outcomes, now, login_of)
    total = f"{facts.metrics.number('jobs'):,} in the queue"
    if facts.matches is not None:
        total = f"{_counted(facts.matches, is_first=facts.after is None)}, {total}"
    shown = f"{lines[0].job_id} to {lines[-1].job_id}" if lines else ""
    return JobList(
        facts.where,
        facts.wrong,
        f"{len(lines)} on this page, {total}",
        lines,
        _address(facts.where, None) if facts.after is not None else None,
        _address(facts.where, lines[-1].job_id) if facts.has_more and lines else None,
        shown,
        tuple(Choice(text, _address(where, None), where == facts.where) for text, where in _CHOICES),
        facts.acts,
        _COMPARED,
        any(act.href == RERUN.href for act in facts.acts),
    )


def _counted(matches: int, *, is_first: bool) -> str:
    """`57 match`, `more than 1,000 match`; on later pages only those from there on are known."""
    number = f"more than {_MOST_COUNTED:,}" if matches > _MOST_COUNTED else f"{matches:,}"
    return f"{number} {'matches' if matches == 1 else 'match'}{'' if is_first else ' from here on'}"


def _address(where: str, after: int | None) -> str:
    return with_query("/ui/jobs", [("where", where), ("after", after)])


BOARD: Final[Board[JobListFacts]] = Board(
    "jobs",
    "/ui/jobs",
    (Right.JOBS_READ,),
    "The page with the list of jobs.",
    ("health", "joblist"),
    read,
    view,
    lambda facts: f"Jobs: {facts.where}" if facts.where else "Jobs",
    interest,
)
