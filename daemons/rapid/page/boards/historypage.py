"""The page of failures: by opcode, by node, and the last ones."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES
from common.webaccess.rights import Right
from common.words.fields import Row
from common.words.jobfilter import statuses_filter
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board
from daemons.rapid.page.live.news import Interest
from daemons.rapid.page.logins import login_of
from daemons.rapid.page.reading.clusternow import ClusterNow
from daemons.rapid.page.reading.jobfacts import ToldJobs, page_of_jobs, told
from daemons.rapid.page.views.boards import FailureRow, FailureTable, HistoryPage
from daemons.rapid.page.views.jobline import ROW_FIELDS, job_lines
from daemons.rapid.page.views.links import with_query
from protocol.rapid.events import Topic

# ended jobs that are counted, and failed ones that are listed
COUNTED: Final = 500
LISTED: Final = 25
_FIELDS: Final = ("id", "status", "opid", "opstatus", "ops")


@attrs.frozen
class Facts:
    ended: tuple[Row, ...]
    failed: ToldJobs


BOARD: Final[Board[Facts]] = Board(
    "history",
    "/ui/history",
    (Right.JOBS_READ,),
    "The page of jobs that failed.",
    ("health", "failures"),
    lambda asked, now: read(asked, now),
    lambda facts, now: view(facts, now),
    lambda _: "History",
    lambda _: Interest.of(Topic.JOBS),
)


async def read(asked: Asked, now: ClusterNow) -> Facts:
    ended = await page_of_jobs(
        asked.daemons, _FIELDS, Expression.from_wire(statuses_filter(FINAL_NAMES)), limit=COUNTED
    )
    failed = await page_of_jobs(
        asked.daemons, ROW_FIELDS, Expression.from_wire(statuses_filter(["error"])), limit=LISTED
    )
    return Facts(ended, await told(asked.daemons, failed))


def view(facts: Facts, now: float) -> HistoryPage:
    which = f"of the last {len(facts.ended)} jobs that ended"
    opcodes = FailureTable("Failures by opcode", which, "opcode", _rows(_opcodes(facts.ended), has_page=True))
    nodes = FailureTable("Failures by node", f"{which} and name a node", "node", _rows(_nodes(facts.ended)))
    jobs = facts.failed
    return HistoryPage((opcodes, nodes), job_lines(jobs.rows, jobs.reasons, jobs.outcomes, now, login_of))


def _opcodes(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
    """The opcodes that ended, and whether they failed."""
    for row in rows:
        for op_id, status in zip(row["opid"], row["opstatus"], strict=False):
            yield op_id, status == "error"


def _nodes(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
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
