"""What the pages ask luxid, in the caller's name. The number of calls never depends on the number of jobs."""

import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from math import inf
from typing import Final

import attrs
import trio

from common.errors import GantryError, InvalidRequest
from common.ids import JobId, read_number
from common.objects.filter import FilterRule
from common.objects.kinds import QueryKind
from common.queue.explanation import Reason
from common.queue.jobs import FINAL_NAMES
from common.queue.ruleloads import RuleLoads
from common.queue.terms import is_label_key
from common.system.program import release
from common.wire import structure
from common.words.fields import JobRow
from common.words.filters.jobfilter import past_filter
from common.words.instants import Toward, parse_instant
from common.words.outcome import FIELDS as OUTCOME_FIELDS
from common.words.outcome import Outcome, outcome_of
from common.words.times import duration
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.page.terminal import DisplayBounds, FirstLines, LastLines, LinePosition, OutputLine, Terminal
from daemons.rapid.page.views.frame import HealthLine
from daemons.rapid.page.views.glance import CAUSES, CONSEQUENCES, Failures, Known, failures_since
from daemons.rapid.page.views.graphview import NODE_FIELDS, GraphFacts
from daemons.rapid.page.views.things import RULE_FIELDS, is_dependency, rule_lines, waiting_jobs
from daemons.rapid.resources.joblists import jobs_by_id
from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.history import EndedJob, Grouping, Past, PastSum, ReadHistory, SummarizeHistory
from protocol.luxi.jobs import JobOutput, OutputTimes, ReadJobOutput, ReadOutputTimes
from protocol.luxi.queries import (
    LOCK_FIELDS,
    QUEUE_LAGS,
    LockRow,
    Query,
    QueryConfigValues,
    QueryFilters,
    read_lock_view,
)
from protocol.luxi.queue import ReadRuleLoads
from protocol.luxi.why import BlockerKind, ExplainJobs, ReadWaitGraph
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


# ends that need an explanation
_UNHAPPY: Final = ("error", "canceled")


@attrs.frozen
class ExplainedJobs:
    """Some jobs, with what is known about why they do not run or did not succeed."""

    rows: tuple[JobRow, ...]
    reasons: Mapping[int, Sequence[Reason] | None]
    outcomes: Mapping[int, Outcome]


async def told(daemons: Daemons, rows: Sequence[JobRow]) -> ExplainedJobs:
    """The rows with the explanations of those that wait, or did not succeed."""
    waiting = [row["id"] for row in rows if row["status"] not in FINAL_NAMES and row["status"] != "running"]
    unhappy = [row["id"] for row in rows if row["status"] in _UNHAPPY]
    outcomes = {row["id"]: outcome_of(row) for row in await jobs_by_id(daemons, unhappy, OUTCOME_FIELDS)}
    return ExplainedJobs(tuple(rows), await reasons_of(daemons, waiting), outcomes)


async def reasons_of(daemons: Daemons, job_ids: Sequence[int]) -> Mapping[int, Sequence[Reason] | None]:
    """Why these jobs do not run; None: a job is not live."""
    if not job_ids:
        return {}
    answers = await daemons.luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    return dict(zip(job_ids, answers, strict=True))


# Locks, and the graph of waits to the root of each chain.


# jobs of which it is asked since when their locks are held
_EXPLAINED: Final = 60


async def lock_rows(daemons: Daemons) -> tuple[LockRow, ...]:
    """Raises: ProtocolError: luxid is of another version."""
    return read_lock_view(await daemons.luxid(Query(QueryKind.LOCK, LOCK_FIELDS)))


async def held_since(daemons: Daemons, rows: Sequence[LockRow]) -> Mapping[int, Sequence[Reason] | None]:
    """The reasons of those that wait in these rows, from which it is known since when locks are held; of some of them.

    So the times of a lock are the same on all pages: they are known if somebody waits for it.
    """
    return await reasons_of(daemons, waiting_jobs([row for row in rows if not is_dependency(row)])[:_EXPLAINED])


async def wait_graph(daemons: Daemons, job_ids: Sequence[int], most: int, *, with_rules: bool = False) -> GraphFacts:
    """Who waits for whom around these jobs, or, if there are none, among all that wait.

    Args: with_rules: whether filter rules may be named as users call them.
    """
    graph = await daemons.luxid(ReadWaitGraph(tuple(map(JobId, job_ids)), most))
    facts = GraphFacts(graph, Known({}, {}, {}))
    rows = await jobs_by_id(daemons, facts.job_ids, NODE_FIELDS)
    has_rules = any(node.kind in (BlockerKind.RULE, BlockerKind.PAUSE) for node in graph.nodes)
    rules = await filter_rules(daemons) if with_rules and has_rules else ()
    names = {each.uuid: each.name for each in rule_lines(rules, RuleLoads())}
    return GraphFacts(graph, Known({row["id"]: row for row in rows}, {}, names))


# The output of a job's commands, as bytes and as the lines of a terminal.


# what a page shows of an output at first; one that follows gets more as it comes
SHOWN: Final = DisplayBounds(1000, 1_000_000)
# what it gets at once
SHOWN_AT_ONCE: Final = DisplayBounds(5000, 2_000_000)
# lines that a search shows
FOUND: Final = DisplayBounds(500, 500_000)
# bytes that are made lines before others have their turn
_TURN_BYTES: Final = 65536


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


async def output_bytes(
    daemons: Daemons, job_id: int, first: Output, of_try: int | None = None
) -> AsyncGenerator[bytes, None]:
    """This piece, and all that follows it by now. Args, Raises: as `read_piece`."""
    piece = first
    while piece.content:
        yield piece.content
        piece = await read_piece(daemons, job_id, piece.end, of_try=of_try)


@attrs.frozen
class ShownLines:
    """A part of an output, as a terminal shows it."""

    lines: tuple[OutputLine, ...]
    # the line without a line feed; None: there is none, or the part does not reach it
    tail: OutputLine | None
    # as far as it was read; what comes next begins there
    place: LinePosition
    # bytes before it are not kept, or are those of other tries
    start: int
    # bytes up to which it was read
    end: int
    # whether no more will come
    is_end: bool
    # lines that were found; None: nothing was looked for, all lines are meant
    found: int | None = None


class _WantedLines:
    """Takes an output in pieces, and keeps the lines that are wanted; all by default."""

    def __init__(self, kept: FirstLines | LastLines, terminal: Terminal | None = None) -> None:
        self.kept = kept
        self.terminal = terminal or Terminal()

    def take(self, content: bytes) -> bool:
        """Whether more is wanted."""
        self.kept.add(self.terminal.feed(content))
        return True

    def flush(self) -> None:
        """Take what was put aside."""


class _EndLines(_WantedLines):
    """The last lines. Theory: pieces are put aside until enough newer lines are there; then they are passed over."""

    def __init__(self) -> None:
        super().__init__(LastLines(SHOWN))
        self._aside: deque[bytes] = deque()
        self._count = 0

    def take(self, content: bytes) -> bool:
        self._aside.append(content)
        self._count += content.count(b"\n")
        while self._count - (first := self._aside[0].count(b"\n")) >= SHOWN.lines:
            self._count -= first
            self.kept.add(self.terminal.feed_where(self._aside.popleft(), lambda text: False))
        return True

    def flush(self) -> None:
        while self._aside:
            super().take(self._aside.popleft())
        self._count = 0


class _LinesFrom(_WantedLines):
    """The lines from one on. Args: number: of the first one."""

    def __init__(self, number: int) -> None:
        self._first = FirstLines(SHOWN)
        super().__init__(self._first)
        self._number = number

    def take(self, content: bytes) -> bool:
        is_before = self.terminal.place.number + content.count(b"\n") <= self._number
        lines = self.terminal.feed_where(content, lambda text: not is_before)
        self._first.add(line for line in lines if line.number >= self._number)
        return not self._first.is_full

    def tail(self, line: OutputLine | None) -> OutputLine | None:
        """The line that is being written, if it is one of them."""
        return line if line is not None and line.number >= self._number and not self._first.is_full else None


class _LinesWith(_WantedLines):
    """The lines that have a text, in small or capital letters."""

    def __init__(self, text: str) -> None:
        super().__init__(FirstLines(FOUND))
        self._pattern = re.compile(re.escape(text), re.IGNORECASE)
        self.count = 0

    def take(self, content: bytes) -> bool:
        self.look(self.terminal.feed_where(content, lambda text: self._pattern.search(text) is not None))
        return True

    def look(self, lines: Iterable[OutputLine]) -> None:
        for line in lines:
            if not line.is_note and self._pattern.search(line.text):
                self.count += 1
                # by itself it is in no group
                self.kept.add([attrs.evolve(line, group=None)])


async def last_lines(daemons: Daemons, job_id: int, longest_s: float = inf) -> ShownLines:
    """The end of an output. Cost: all of it is read.

    Args: longest_s: time after which that counts as the end which was reached: a job may print faster than it is read.
    """
    lines = _EndLines()
    read = await _read_lines(daemons, job_id, None, lines, longest_s)
    return attrs.evolve(read, lines=lines.kept.lines)


async def lines_from(daemons: Daemons, job_id: int, number: int, of_try: int | None = None) -> ShownLines:
    """The lines from this one on, as many as a page shows. Cost: all before it is read. Raises: as `read_piece`."""
    lines = _LinesFrom(number)
    read = await _read_lines(daemons, job_id, of_try, lines)
    return attrs.evolve(read, lines=lines.kept.lines, tail=lines.tail(read.tail))


async def lines_with(
    daemons: Daemons, job_id: int, text: str, of_try: int | None = None, longest_s: float = inf
) -> ShownLines:
    """The first lines that have this text, in small or capital letters. Cost: all is read. Args, Raises: as others."""
    lines = _LinesWith(text)
    read = await _read_lines(daemons, job_id, of_try, lines, longest_s)
    lines.look([read.tail] if read.tail is not None else [])
    return attrs.evolve(read, lines=lines.kept.lines, tail=None, found=lines.count)


async def _read_lines(
    daemons: Daemons, job_id: int, of_try: int | None, lines: _WantedLines, longest_s: float = inf
) -> ShownLines:
    """Read an output into `lines`; return what else is known of it."""
    piece, ends_at = await read_piece(daemons, job_id, 0, of_try=of_try), trio.current_time() + longest_s
    start, content = piece.start, piece.content
    if start and of_try is None:
        # the rest of a line whose beginning is gone
        content = content[content.find(b"\n") + 1 :]
    terminal = lines.terminal = Terminal(LinePosition(piece.end - len(content)))
    while piece.content and await _take(lines, content) and trio.current_time() < ends_at:
        end = piece.end
        piece = await read_piece(daemons, job_id, end, of_try=of_try)
        content = piece.content
        if content and piece.start > end:
            lines.flush()
            lines.kept.add(terminal.skip(piece.start - end))
    lines.flush()
    if piece.is_end:
        terminal.finish()
    return ShownLines((), terminal.tail, terminal.place, start, terminal.end, piece.is_end)


async def _take(lines: _WantedLines, content: bytes) -> bool:
    """Whether more is wanted. Others have their turn meanwhile."""
    for at in range(0, len(content), _TURN_BYTES):
        if not lines.take(content[at : at + _TURN_BYTES]):
            return False
        await trio.lowlevel.checkpoint()
    return True


async def times_of(daemons: Daemons, job_id: int, lines: Iterable[OutputLine]) -> Mapping[int, float | None]:
    """When the lines began to come, by the number of their first byte; None: that is not known.

    Args: lines: in their order.
    Raises: Denied: it is not for him.
    """
    offsets = [line.offset for line in lines if not line.is_note]
    found: dict[int, float | None] = {}
    told: OutputTimes | None = None
    for offset in offsets:
        if told is None or (told.until is not None and offset >= told.until):
            told = await daemons.luxid(ReadOutputTimes(JobId(job_id), offset, offsets[-1] + 1))
        found[offset] = told.at(offset)
    return found


async def read_on(terminal: Terminal, piece: Output) -> LastLines:
    """The lines that this piece ends, as many as are sent at once. Others have their turn meanwhile."""
    kept = LastLines(SHOWN_AT_ONCE)
    lines = _WantedLines(kept, terminal)
    if piece.content and piece.start > terminal.end:
        kept.add(terminal.skip(piece.start - terminal.end))
    await _take(lines, piece.content)
    if piece.is_end:
        terminal.finish()
    return kept


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
        return cls(
            query.get("since", DEFAULT_SINCE).strip(),
            query.get("where", "").strip(),
            query.get("by", "").strip() or Grouping.NAME.value,
            read_number(query.get("offset", "")) or 0,
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


# What failed lately, and what holds the most jobs back.


# failures that the first screen looks at, of which many may be alike
FAILURES: Final = 200


async def read_failures(daemons: Daemons, now: float, looked_at: float | None) -> Failures:
    """The failures of the last hour, and those since the visitor looked; newest first."""
    since = failures_since(now, looked_at)
    causes, consequences = (Past(since=since, filter=past_filter(each, now, None)) for each in (CAUSES, CONSEQUENCES))
    try:
        found = await daemons.luxid(ReadHistory(causes, limit=FAILURES))
        left_out = await daemons.luxid(ReadHistory(consequences, limit=1))
    except GantryError as error:
        # the rest of the page says enough
        return Failures(since, looked_at, wrong=error.message)
    return Failures(since, looked_at, found.jobs, found.total, left_out.total)


# Filter rules, and what they and the buckets do to the jobs.


async def filter_rules(daemons: Daemons) -> tuple[FilterRule, ...]:
    rows = await daemons.luxid(QueryFilters(None, RULE_FIELDS))
    return tuple(structure(dict(zip(RULE_FIELDS, row, strict=True)), FilterRule) for row in rows)


async def rule_loads(daemons: Daemons) -> RuleLoads:
    return await daemons.luxid(ReadRuleLoads())
