"""The dashboard: what runs, what waits, and why, at a glance."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.query.qlang import Expression
from common.queue.ruleloads import RuleLoads
from common.webaccess.rights import Right
from common.words.fields import JobRow
from common.words.filters.jobfilter import statuses_filter
from common.words.times import duration
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.drawing import draw_timeline
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import ClusterNow, ToldJobs, filter_rules, lock_rows, page_of_jobs, rule_loads, told
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.templates import figure
from daemons.rapid.page.views.boards import Dashboard, Tile
from daemons.rapid.page.views.figures import Sample, rate_chart, rates
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.jobview import LIFE_FIELDS, ROW_FIELDS, LaneBy, job_lines, lives, window
from daemons.rapid.page.views.things import bucket_lines, lock_lines, rule_lines
from protocol.luxi.queries import LockRow
from protocol.metrics import DaemonMetrics
from protocol.rapid.events import Topic

# rows of each list
JOBS: Final = 12
LOCKS: Final = 8
RULES: Final = 6
# jobs of the timeline, for lanes of one job each and of several
BARS: Final = {LaneBy.JOB: 18, LaneBy.OPCODE: 150, LaneBy.USER: 150}


@attrs.frozen
class DashboardFacts:
    metrics: DaemonMetrics
    current: ToldJobs
    recent: tuple[JobRow, ...]
    by: LaneBy
    # None: the caller may not see them
    locks: tuple[LockRow, ...]
    rules: tuple[FilterRule, ...]
    loads: RuleLoads
    # of now, whenever it is drawn
    samples: Callable[[], Sequence[Sample]]


@attrs.frozen
class DashboardBoard:
    _recorder: Recorder

    def board(self) -> Board[DashboardFacts]:
        return Board(
            "dashboard",
            "/ui",
            (Right.JOBS_READ,),
            "The page that shows the queue at a glance.",
            ("health", "tiles", "current", "timeline", "locks", "heldback", "rates"),
            self.read,
            view,
            lambda _: "Dashboard",
            lambda _: Interest.of(*Topic),
        )

    async def read(self, asked: Asked, now: ClusterNow) -> DashboardFacts:
        by, may_see_rules = lane_by(asked), may(asked, Right.FILTERS_READ)
        current = await _current(asked)
        return DashboardFacts(
            now.metrics,
            await told(asked.daemons, current),
            await page_of_jobs(asked.daemons, LIFE_FIELDS, None, limit=BARS[by]),
            by,
            await lock_rows(asked.daemons) if may(asked, Right.LOCKS_READ) else (),
            await filter_rules(asked.daemons) if may_see_rules else (),
            await rule_loads(asked.daemons) if may_see_rules else RuleLoads(),
            lambda: self._recorder.samples,
        )


async def _current(asked: Asked) -> Sequence[JobRow]:
    """What has a process or waits for others comes first; a long queue would hide it."""
    begun = Expression.from_wire(statuses_filter(("running", "waiting", "canceling")))
    rows = await page_of_jobs(asked.daemons, ROW_FIELDS, begun, limit=JOBS)
    if len(rows) == JOBS:
        return rows
    queued = Expression.from_wire(statuses_filter(("queued",)))
    return (*rows, *await page_of_jobs(asked.daemons, ROW_FIELDS, queued, limit=JOBS - len(rows)))


def lane_by(asked: Asked) -> LaneBy:
    """The lanes that the address asks for."""
    wanted = asked.http.query_params.get("by")
    return next((by for by in LaneBy if by.value == wanted), LaneBy.JOB)


def view(facts: DashboardFacts, now: float) -> Dashboard:
    drawn = lives(facts.recent, facts.by, now)
    return Dashboard(
        tiles(facts),
        job_lines(facts.current.rows, facts.current.reasons, facts.current.outcomes, now, login_of),
        draw_timeline(drawn, *window(drawn, now)),
        tuple(Choice(by.value, with_query("/ui", [("by", by.value)]), by is facts.by) for by in LaneBy),
        lock_lines(facts.locks[:LOCKS], facts.current.reasons, now),
        len(facts.locks),
        rule_lines(facts.rules, facts.loads)[:RULES],
        bucket_lines(facts.loads)[:RULES],
        rate_chart(facts.samples()),
    )


def tiles(facts: DashboardFacts) -> tuple[Tile, ...]:
    metrics, lately = facts.metrics, rates(facts.samples())
    jobs, ended = metrics.by("jobs"), metrics.by("jobs_ended")
    waited_s, limits_full = metrics.number("oldest_wait_seconds"), metrics.number("limits_full")
    slots, taken = metrics.number("job_slots"), metrics.number("job_slots_taken")
    oldest = duration(waited_s) if waited_s else "-"
    full = f"{limits_full} limits are full" if limits_full else ""
    which = f"of {figure(sum(ended.values()))} ended since luxid's start"
    return (
        _tile("running", jobs, f"{taken} places taken", figure(slots)),
        _tile("waiting", jobs, "for locks, other jobs"),
        _tile("queued", jobs, full),
        Tile("error", "failed", figure(ended.get("error", 0)), _jobs("status=error"), "", which),
        Tile("", "jobs/s", "-" if lately is None else figure(lately.ended), "/ui/rates", "", "ended, last minute"),
        Tile("", "oldest wait", oldest, _jobs("status=queued"), "", "for its process"),
    )


def _tile(status: str, jobs: Mapping[str, float], note: str, of: str = "") -> Tile:
    return Tile(status, status, figure(jobs.get(status, 0)), _jobs(f"status={status}"), of, note)


def _jobs(where: str) -> str:
    return with_query("/ui/jobs", [("where", where)])
