"""What the pages ask luxid, in the caller's name. The number of calls never depends on the number of jobs."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, cast

import attrs
import trio

from common.errors import GantryError, InvalidRequest
from common.ids import JobId
from common.objects.filter import FilterRule
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.queue.ruleloads import RuleLoads
from common.queue.terms import is_label_key
from common.system.program import release
from common.wire import structure
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression as Wire
from common.words.filters.jobfilter import past_filter, statuses_filter
from common.words.instants import Toward, parse_instant
from common.words.outcome import FIELDS as OUTCOME_FIELDS
from common.words.outcome import Outcome, outcome_of
from common.words.times import duration
from common.words.why import culprits
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.page.views.frame import HealthLine
from daemons.rapid.page.views.things import RULE_FIELDS
from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.history import EndedJob, Grouping, Past, PastSum, ReadHistory, SummarizeHistory
from protocol.luxi.jobs import JobOutput, ReadJobOutput
from protocol.luxi.queries import (
    LOCK_FIELDS,
    QUEUE_LAGS,
    LockRow,
    Page,
    Query,
    QueryConfigValues,
    QueryFilters,
    QueryJobs,
    read_lock_view,
)
from protocol.luxi.queue import ReadRuleLoads
from protocol.luxi.why import ExplainJobs
from protocol.metrics import DaemonMetrics
from protocol.wconfd.locks import ListOrphanedLocks

# The cluster: its name, its master, its numbers.


# a shorter silence of etcd is not told
_SILENT_S: Final = 1.0
_NAMES: Final = ("cluster_name", "master_node", QUEUE_LAGS)


@attrs.frozen
class ClusterNow:
    health: HealthLine
    metrics: DaemonMetrics


async def cluster_now(daemons: Daemons) -> ClusterNow:
    name, master, lags = await daemons.luxid(QueryConfigValues(_NAMES))
    metrics = await daemons.luxid(ReadMetrics())
    # one machine has none
    orphans = await _orphans(daemons) if lags is not None else 0
    return ClusterNow(health_of(str(name), str(master), metrics, orphans, is_copied=lags is not None), metrics)


def health_of(cluster: str, master: str, metrics: DaemonMetrics, orphans: int = 0, *, is_copied: bool) -> HealthLine:
    nodes_behind, epoch = metrics.number("candidates_behind"), metrics.number("master_epoch")
    lag = f"{metrics.number('candidate_lag_files')} files, {duration(metrics.number('candidate_lag_seconds'))}"
    return HealthLine(
        cluster,
        master,
        str(epoch) if epoch else "",
        "" if not is_copied else f"{nodes_behind} behind by {lag}" if nodes_behind else "up to date",
        bool(nodes_behind),
        _of_etcd(metrics),
        orphans,
        bool(metrics.number("queue_drained")),
        release(),
    )


def _of_etcd(metrics: DaemonMetrics) -> str:
    if metrics.number("etcd_full"):
        return "is full: no job is taken"
    silent_s = metrics.number("etcd_silent_seconds")
    return f"has not replied for {duration(silent_s)}" if silent_s >= _SILENT_S else ""


async def _orphans(daemons: Daemons) -> int:
    """How many dead owners keep locks; 0 also while wconfd is away, which is no reason to show nothing."""
    try:
        orphans = await daemons.wconfd(ListOrphanedLocks())
    except GantryError:
        return 0
    return len(orphans)


# Jobs, and why they wait or ended so.


UNENDED: Final[Wire] = ["!", statuses_filter(FINAL_NAMES)]
# ends that need an explanation
_UNHAPPY: Final = ("error", "canceled")


@attrs.frozen
class ToldJobs:
    """Some jobs, with what is known about why they do not run or did not succeed."""

    rows: tuple[JobRow, ...]
    reasons: Mapping[int, Sequence[Reason] | None]
    outcomes: Mapping[int, Outcome]


async def page_of_jobs(
    daemons: Daemons, fields: Sequence[str], filter: Expression | None, *, limit: int, after: int | None = None
) -> tuple[JobRow, ...]:
    """Jobs, newest first.

    Args: after: id of the last job of the page before.
    """
    page = Page(limit, None if after is None else JobId(after))
    answer = await daemons.luxid(Query(QueryKind.JOB, tuple(fields), filter, page))
    rows = (dict(zip(fields, values, strict=True)) for values in answer.values())
    return tuple(cast(JobRow, row) for row in rows if row.get("status") is not None)


async def jobs_by_id(daemons: Daemons, job_ids: Sequence[int], fields: Sequence[str]) -> tuple[JobRow, ...]:
    """These jobs; those that do not exist are left out."""
    if not job_ids:
        return ()
    found = await daemons.luxid(QueryJobs(tuple(map(JobId, dict.fromkeys(job_ids))), tuple(fields)))
    rows = (dict(zip(fields, values, strict=True)) for values in found)
    return tuple(cast(JobRow, row) for row in rows if row.get("status") is not None)


async def told(daemons: Daemons, rows: Sequence[JobRow]) -> ToldJobs:
    """The rows with the explanations of those that wait, or did not succeed."""
    waiting = [row["id"] for row in rows if row["status"] not in FINAL_NAMES and row["status"] != "running"]
    unhappy = [row["id"] for row in rows if row["status"] in _UNHAPPY]
    outcomes = {row["id"]: outcome_of(row) for row in await jobs_by_id(daemons, unhappy, OUTCOME_FIELDS)}
    return ToldJobs(tuple(rows), await reasons_of(daemons, waiting), outcomes)


async def reasons_of(daemons: Daemons, job_ids: Sequence[int]) -> Mapping[int, Sequence[Reason] | None]:
    """Why these jobs do not run; None: a job is not live."""
    if not job_ids:
        return {}
    answers = await daemons.luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    return dict(zip(job_ids, answers, strict=True))


# Locks, and the graph of waits to the root of each chain.


# jobs that one graph shows; chains may be long
MOST: Final = 60


async def lock_rows(daemons: Daemons) -> tuple[LockRow, ...]:
    """Raises: ProtocolError: luxid is of another version."""
    return read_lock_view(await daemons.luxid(Query(QueryKind.LOCK, LOCK_FIELDS)))


async def chains(daemons: Daemons, job_ids: Sequence[int]) -> Mapping[int, Sequence[Reason] | None]:
    """The reasons of these jobs, and of those that stop them, directly or through others; at most `MOST` jobs."""
    found: dict[int, Sequence[Reason] | None] = {}
    wanted = list(dict.fromkeys(job_ids))[:MOST]
    while wanted:
        found.update(await reasons_of(daemons, wanted))
        named = dict.fromkeys(culprit for job_id in wanted for culprit in culprits(found[job_id]))
        wanted = [job_id for job_id in named if job_id not in found][: MOST - len(found)]
    return found


# The output of a job's commands: a part of it, or its end.


# bytes of output on a page at first; a page that follows gets more as it comes
SHOWN_BYTES: Final = 65536


@attrs.frozen
class Output:
    content: bytes
    # offset of its first byte
    start: int
    # whether no more will come
    is_end: bool

    @property
    def end(self) -> int:
        return self.start + len(self.content)

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")


async def read_piece(
    daemons: Daemons, job_id: int, offset: int, timeout_s: float = 0.0, of_try: int | None = None
) -> Output:
    """What follows this byte, as far as it is there, or comes within the time.

    Args: of_try: number of the only try of which it is wanted; None: all.
    Raises: Denied: it is not for him. NotFound: there was no such try.
    """
    call = ReadJobOutput(JobId(job_id), offset, timeout_s, as_bytes=True, of_try=of_try)
    piece: JobOutput = await daemons.luxid(call)
    content = piece.text.encode("latin-1")
    # older output may be gone
    return Output(content, piece.next_offset - len(content), piece.is_end)


async def output_from(daemons: Daemons, job_id: int, offset: int, of_try: int | None = None) -> Output:
    """The output from a byte on, as much as there is now and a page shows. Args, Raises: as `read_piece`."""
    found = await read_piece(daemons, job_id, offset, of_try=of_try)
    while found.content and not found.is_end and len(found.content) < SHOWN_BYTES:
        more = await read_piece(daemons, job_id, found.end, of_try=of_try)
        found = _joined(found, more)
        if not more.content:
            break
    if len(found.content) > SHOWN_BYTES:
        return Output(found.content[:SHOWN_BYTES], found.start, is_end=False)
    return found


async def output_end(daemons: Daemons, job_id: int, longest_s: float = inf) -> Output:
    """The last part of the output. Cost: all of it is read.

    Args: longest_s: time after which that counts as the end which was reached: a job may print faster than it is read.
    """
    found, ends_at = await read_piece(daemons, job_id, 0), trio.current_time() + longest_s
    while not found.is_end and trio.current_time() < ends_at:
        more = await read_piece(daemons, job_id, found.end)
        found = _joined(found, more)
        if not more.content:
            break
    kept = found.content[-SHOWN_BYTES:]
    return Output(kept, found.end - len(kept), found.is_end)


def _joined(first: Output, more: Output) -> Output:
    if more.start != first.end:
        # what was between was rotated away
        return more if more.content else attrs.evolve(first, is_end=more.is_end)
    # only the last part is ever shown
    content = (first.content + more.content)[-2 * SHOWN_BYTES :]
    return Output(content, more.end - len(content), more.is_end)


# The history, as far as a visitor chose it.


ROWS: Final = 50
# groups that the page shows
GROUPS: Final = 50
DEFAULT_SINCE: Final = "7d ago"
_LABEL: Final = "label."


@attrs.frozen
class PastChoice:
    """What a visitor chose, in his words."""

    since: str
    where: str
    # value of a `Grouping`, or `label.KEY`
    by: str
    offset: int

    @classmethod
    def asked_for(cls, asked: Asked) -> "PastChoice":
        query = asked.http.query_params
        text = query.get("offset", "")
        return cls(
            query.get("since", DEFAULT_SINCE).strip(),
            query.get("where", "").strip(),
            query.get("by", "").strip() or Grouping.NAME.value,
            int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0,
        )


@attrs.frozen
class PastFound:
    choice: PastChoice
    sums: Sequence[PastSum] = ()
    jobs: Sequence[EndedJob] = ()
    total: int = 0
    unread: int = 0
    # why the choice cannot be used; "": it can
    wrong: str = ""


async def read_past(asked: Asked, choice: PastChoice, now: float) -> PastFound:
    """What the choice finds; one that cannot be used finds nothing."""
    try:
        past = _past(choice, now)
        by, label = _grouping(choice.by)
        sums = await asked.daemons.luxid(SummarizeHistory(past, by, label, limit=GROUPS))
        found = await asked.daemons.luxid(ReadHistory(past, limit=ROWS, offset=choice.offset))
    except InvalidRequest as error:
        return PastFound(choice, wrong=error.message)
    return PastFound(choice, sums, found.jobs, found.total, found.unread)


def _past(choice: PastChoice, now: float) -> Past:
    return Past(
        since=parse_instant(choice.since, now, None, Toward.PAST) if choice.since else None,
        filter=past_filter(choice.where, now, None) if choice.where else None,
    )


def _grouping(by: str) -> tuple[Grouping, str]:
    """Raises: InvalidRequest: nothing is summed up by this."""
    if by.startswith(_LABEL) and is_label_key(by.removeprefix(_LABEL)):
        return Grouping.LABEL, by.removeprefix(_LABEL)
    known = {each.value: each for each in Grouping if each is not Grouping.LABEL}
    if by not in known:
        raise InvalidRequest(f"jobs are summed up by {', '.join(known)} or label.KEY, as in label.team; got {by!r:.60}")
    return known[by], ""


# Filter rules, and what they and the buckets do to the jobs.


async def filter_rules(daemons: Daemons) -> tuple[FilterRule, ...]:
    rows = await daemons.luxid(QueryFilters(None, RULE_FIELDS))
    return tuple(structure(dict(zip(RULE_FIELDS, row, strict=True)), FilterRule) for row in rows)


async def rule_loads(daemons: Daemons) -> RuleLoads:
    return await daemons.luxid(ReadRuleLoads())
