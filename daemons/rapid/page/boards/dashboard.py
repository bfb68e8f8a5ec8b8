"""The first screen: what needs somebody, and then what goes on."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from common.objects.filter import FilterRule
from common.query.qlang import Expression
from common.queue.explanation import Reason
from common.queue.ruleloads import RuleLoads
from common.webaccess.rights import Right
from common.words.fields import JobRow, wire_fields
from common.words.filters.jobfilter import statuses_filter
from common.words.times import duration
from daemons.rapid.calls import Asked
from daemons.rapid.page.boards.board import Board, may
from daemons.rapid.page.drawing import draw_timeline
from daemons.rapid.page.live.parts import Interest
from daemons.rapid.page.pages import login_of
from daemons.rapid.page.reading import (
    ClusterNow,
    filter_rules,
    held_since,
    lock_rows,
    read_failures,
    reasons_of,
    rule_loads,
)
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.templates import figure
from daemons.rapid.page.views.boards import BlockersView, Dashboard, RunningView, Tile
from daemons.rapid.page.views.figures import Sample, rate_chart, rates
from daemons.rapid.page.views.frame import Choice, with_query
from daemons.rapid.page.views.glance import (
    HOUR_S,
    Failures,
    Known,
    blocker_lines,
    failures_view,
    jobs_named,
    running_groups,
    wait_lines,
    worth_drawing,
)
from daemons.rapid.page.views.jobview import LIFE_FIELDS, ROW_FIELDS, LaneBy, lives, window
from daemons.rapid.page.views.things import bucket_lines, is_dependency, lock_lines, rule_lines
from daemons.rapid.page.visitors import looked_at
from daemons.rapid.resources.joblists import jobs_by_id, page_of_jobs
from protocol.luxi.queries import LockRow
from protocol.luxi.why import Blockers, ReadBlockers
from protocol.metrics import DaemonMetrics
from protocol.rapid.events import Topic

# rows of each list
BLOCKERS: Final = 8
WAITS: Final = 8
GROUPS: Final = 12
LOCKS: Final = 8
RULES: Final = 6
# waits that are looked at, of which many may be alike
LOOKED_AT: Final = 30
# running jobs that are looked at
RUNNING: Final = 500
# jobs of the timeline, for lanes of one job each and of several
BARS: Final = {LaneBy.JOB: 18, LaneBy.OPCODE: 150, LaneBy.USER: 150}
# jobs of which it is asked why they wait
EXPLAINED: Final = 8
_KNOWN_FIELDS: Final = tuple(dict.fromkeys((*ROW_FIELDS, *wire_fields(("time",)), "begin_ts", "hold", "uses")))


@attrs.frozen
class DashboardFacts:
    metrics: DaemonMetrics
    failures: Failures
    blockers: Blockers
    known: Known
    running: tuple[JobRow, ...]
    drawn: tuple[JobRow, ...]
    by: LaneBy
    # empty: the caller may not see them
    locks: tuple[LockRow, ...]
    # of those that wait in the rows that are shown
    held: Mapping[int, Sequence[Reason] | None]
    rules: tuple[FilterRule, ...]
    loads: RuleLoads
    # of now, whenever it is drawn
    samples: Callable[[], Sequence[Sample]]


def board(recorder: Recorder) -> Board[DashboardFacts]:
    return Board(
        "dashboard",
        "/ui",
        (Right.JOBS_READ,),
        "The page that shows what failed, what waits and why, and what runs.",
        ("health", "tiles", "failed", "blockers", "longest", "running", "timeline", "locks", "heldback", "rates"),
        partial(read, recorder),
        view,
        lambda _: "Dashboard",
        lambda _: Interest.of(*Topic),
    )


async def read(recorder: Recorder, asked: Asked, now: ClusterNow) -> DashboardFacts:
    daemons, by, may_see_rules = asked.daemons, lane_by(asked), may(asked, Right.FILTERS_READ)
    failures = await read_failures(daemons, time.time(), looked_at(asked.http))
    found = await daemons.luxid(ReadBlockers(LOOKED_AT))
    found = attrs.evolve(found, blockers=found.blockers[:BLOCKERS])
    running = await page_of_jobs(daemons, ROW_FIELDS, _RUNNING_NOW, limit=RUNNING)
    rules = await filter_rules(daemons) if may_see_rules else ()
    loads = await rule_loads(daemons) if may_see_rules else RuleLoads()
    named = await jobs_by_id(daemons, jobs_named(found.blockers, found.longest), _KNOWN_FIELDS)
    rows = {row["id"]: row for row in named}
    rows_of_locks = await lock_rows(daemons) if may(asked, Right.LOCKS_READ) else ()
    locks = tuple(row for row in rows_of_locks if not is_dependency(row))
    return DashboardFacts(
        now.metrics,
        failures,
        found,
        Known(
            rows,
            await reasons_of(daemons, _to_explain(found, rows)),
            {each.uuid: each.name for each in rule_lines(rules, loads)},
        ),
        running,
        await _drawn(asked, by, found, failures, running),
        by,
        locks,
        await held_since(daemons, locks[:LOCKS]),
        rules,
        loads,
        lambda: recorder.samples,
    )


_RUNNING_NOW: Final = Expression.from_wire(statuses_filter(("running", "canceling")))


async def _drawn(
    asked: Asked, by: LaneBy, found: Blockers, failures: Failures, running: Sequence[JobRow]
) -> tuple[JobRow, ...]:
    """The jobs of the timeline: those that matter, if each has a lane; else the newest."""
    if by is not LaneBy.JOB:
        return await page_of_jobs(asked.daemons, LIFE_FIELDS, None, limit=BARS[by])
    job_ids = worth_drawing(found.blockers, failures.jobs, running, found.longest, BARS[by])
    return await jobs_by_id(asked.daemons, job_ids, LIFE_FIELDS)


def _to_explain(found: Blockers, rows: Mapping[int, JobRow]) -> list[int]:
    """Jobs of which luxid is asked why they wait: those that have a process, and one that is in the line.

    To explain the place of a job in a long line takes luxid long; its way says the same.
    """
    by_lock = [wait.job_id for wait in found.longest if wait.way and wait.way[0].lock]
    named = jobs_named(found.blockers, ())
    roots = [job_id for job_id in named if job_id in rows and rows[job_id]["status"] in _STUCK]
    in_line = [wait.job_id for wait in found.longest if not wait.way][:1]
    return list(dict.fromkeys((*by_lock, *roots, *in_line)))[:EXPLAINED]


_STUCK: Final = ("waiting", "canceling")


def lane_by(asked: Asked) -> LaneBy:
    """The lanes that the address asks for."""
    wanted = asked.http.query_params.get("by")
    return next((by for by in LaneBy if by.value == wanted), LaneBy.JOB)


def view(facts: DashboardFacts, now: float) -> Dashboard:
    drawn = lives(facts.drawn, facts.by, now)
    return Dashboard(
        tiles(facts, now),
        failures_view(facts.failures, now, login_of),
        _blockers(facts, now),
        wait_lines(facts.blockers.longest, facts.known, now, WAITS),
        _running(facts, now),
        draw_timeline(drawn, *window(drawn, now)),
        facts.by is LaneBy.JOB,
        tuple(Choice(by.value, with_query("/ui", [("by", by.value)]), by is facts.by) for by in LaneBy),
        lock_lines(facts.locks[:LOCKS], facts.held, now),
        len(facts.locks),
        rule_lines(facts.rules, facts.loads)[:RULES],
        bucket_lines(facts.loads)[:RULES],
        rate_chart(facts.samples()),
    )


def _blockers(facts: DashboardFacts, now: float) -> BlockersView:
    found = facts.blockers
    told = f"{found.waiting:,} {'job waits' if found.waiting == 1 else 'jobs wait'}"
    return BlockersView(blocker_lines(found.blockers, facts.known, now), told, found.unknown, found.is_partial)


def _running(facts: DashboardFacts, now: float) -> RunningView:
    groups = running_groups(facts.running, now)
    count = int(facts.metrics.by("jobs").get("running", 0))
    told = f"{count:,} {'job' if count == 1 else 'jobs'}"
    return RunningView(groups[:GROUPS], told, len(groups[GROUPS:]))


def tiles(facts: DashboardFacts, now: float) -> tuple[Tile, ...]:
    metrics, lately = facts.metrics, rates(facts.samples())
    jobs, ended = metrics.by("jobs"), metrics.by("jobs_ended")
    waited_s, limits_full = metrics.number("oldest_wait_seconds"), metrics.number("limits_full")
    slots, taken = metrics.number("job_slots"), metrics.number("job_slots_taken")
    oldest = duration(waited_s) if waited_s else "-"
    full = f"{limits_full} {'limit is' if limits_full == 1 else 'limits are'} full" if limits_full else ""
    failures = facts.failures
    span = "last hour" if now - failures.since <= HOUR_S + 1 else f"last {duration(now - failures.since)}"
    failed = "-" if failures.wrong else figure(failures.total + failures.consequences)
    since_start = f"{span}; {figure(ended.get('error', 0))} since luxid's start"
    return (
        _tile("running", jobs, f"{taken} places taken", figure(slots)),
        _tile("waiting", jobs, "for locks, other jobs"),
        _tile("queued", jobs, full),
        Tile("error", "failed", failed, _jobs("status=error"), "", since_start),
        Tile("", "jobs/s", "-" if lately is None else figure(lately.ended), "/ui/rates", "", "ended, last minute"),
        Tile("", "oldest queued", oldest, _jobs("status=queued"), "", "waits for its process"),
    )


def _tile(status: str, jobs: Mapping[str, float], note: str, of: str = "") -> Tile:
    return Tile(status, status, figure(jobs.get(status, 0)), _jobs(f"status={status}"), of, note)


def _jobs(where: str) -> str:
    return with_query("/ui/jobs", [("where", where)])
