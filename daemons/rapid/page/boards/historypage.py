"""The page of the history: what ran, summed up, and the failures by opcode, by node, and the last ones."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote_plus

import attrs

from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES
from common.webaccess.rights import Right
from common.words.fields import JobRow
from common.words.filters.jobfilter import statuses_filter
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import ROWS, ClusterNow, ExplainedJobs, PastChoice, PastFound, read_past, told
from daemons.rapid.page.views.boards import FailureRow, FailureTable, HistoryPage
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.jobview import ROW_FIELDS, PastView, job_lines, past_lines, sum_lines
from daemons.rapid.resources.joblists import page_of_jobs
from protocol.rapid.events import Topic

# ended jobs that are counted, and failed ones that are listed
COUNTED: Final = 500
LISTED: Final = 25
_SUMMED_BY: Final = ("name", "user", "status", "day")
_FIELDS: Final = ("id", "status", "opid", "opstatus", "ops")


@attrs.frozen
class HistoryPageFacts:
    ended: tuple[JobRow, ...]
    failed: ExplainedJobs
    # None: only the whole page shows it
    past: PastFound | None = None


async def read(asked: Asked, now: ClusterNow) -> HistoryPageFacts:
    ended = await page_of_jobs(
        asked.daemons, _FIELDS, Expression.from_wire(statuses_filter(FINAL_NAMES)), limit=COUNTED
    )
    failed = await page_of_jobs(
        asked.daemons, ROW_FIELDS, Expression.from_wire(statuses_filter(["error"])), limit=LISTED
    )
    return HistoryPageFacts(ended, await told(asked.daemons, failed))


async def with_past(asked: Asked, facts: HistoryPageFacts) -> HistoryPageFacts:
    """The facts with what the visitor chose of the history; it does not change on an open page."""
    return attrs.evolve(facts, past=await read_past(asked, PastChoice.asked_for(asked), time.time()))


def view(facts: HistoryPageFacts, now: float) -> HistoryPage:
    which = f"of the last {len(facts.ended)} jobs that ended"
    opcodes = FailureTable("Failures by opcode", which, "opcode", _rows(_opcodes(facts.ended), has_page=True))
    nodes = FailureTable("Failures by node", f"{which} and name a node", "node", _rows(_nodes(facts.ended)))
    jobs = facts.failed
    past = None if facts.past is None else _past(facts.past)
    return HistoryPage((opcodes, nodes), job_lines(jobs.rows, jobs.reasons, jobs.outcomes, now, login_of), past)


def _past(found: PastFound) -> PastView:
    choice, count = found.choice, len(found.jobs)
    end = choice.offset + count
    told = f"{choice.offset + 1} to {end} of {found.total:,}" if count else f"{found.total:,} jobs"
    unread = f"; {found.unread} more are being read" if found.unread else ""
    return PastView(
        choice.since,
        choice.where,
        found.wrong,
        choice.by,
        tuple(Choice(by, _address(choice, by), by == choice.by) for by in _SUMMED_BY),
        sum_lines(found.sums),
        told + unread,
        past_lines(found.jobs),
        _address(choice, choice.by) if choice.offset else None,
        _address(choice, choice.by, choice.offset + ROWS) if end < found.total else None,
    )


def _address(choice: PastChoice, by: str, offset: int = 0) -> str:
    # an empty "since" means all of the past
    since = f"since={quote_plus(choice.since)}"
    rest = with_query("", [("where", choice.where), ("by", by), ("offset", offset)])
    return f"/ui/history?{since}&{rest.removeprefix('?')}"


def _opcodes(rows: Sequence[JobRow]) -> Iterator[tuple[str, bool]]:
    """The opcodes that ended, and whether they failed."""
    for row in rows:
        for op_id, status in zip(row["opid"], row["opstatus"], strict=False):
            yield op_id, status == "error"


def _nodes(rows: Sequence[JobRow]) -> Iterator[tuple[str, bool]]:
    """The nodes that opcodes name, by a parameter or a lock, and whether the opcode failed."""
    for row in rows:
        for op, status in zip(row["ops"], row["opstatus"], strict=False):
            for name in sorted(set(_nodes_of(op))):
                yield name, status == "error"


def _nodes_of(op: object) -> Iterator[str]:
    match op:
        case {"node_name": str(name)}:
            yield name
        case _:
            pass
    match op:
        case {"locks": dict(locks)}:
            yield from (str(lock).partition("/")[2] for lock in locks if str(lock).startswith("node/"))
        case _:
            pass


def _rows(told: Iterator[tuple[str, bool]], *, has_page: bool = False) -> tuple[FailureRow, ...]:
    ended: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for name, is_failure in told:
        ended[name] += 1
        failed[name] += is_failure
    ordered = sorted(ended, key=lambda name: (-failed[name], -ended[name], name))
    return tuple(FailureRow(name, failed[name], ended[name], _failures(name) if has_page else None) for name in ordered)


def _failures(op_id: str) -> str:
    return with_query("/ui/jobs", [("where", f"status=error & op={op_id}")])


BOARD: Final[Board[HistoryPageFacts]] = Board(
    "history",
    "/ui/history",
    (Right.JOBS_READ,),
    "The page of jobs that ended.",
    ("health", "failures"),
    read,
    view,
    lambda _: "History",
    lambda _: Interest.of(Topic.JOBS),
    with_past,
)
