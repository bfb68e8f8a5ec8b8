"""The index of the history, against twins that scan lists (everyday.md section g)."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InvalidRequest
from common.ids import JobId
from common.query.predicate import NO_VALUE, QUERY, Field, FilterError, compile_expression
from common.query.qlang import Expression
from common.queue.jobs import FINAL, JobState
from common.words.filters.jobfilter import past_filter
from daemons.luxid.core.past.endedrow import ColumnIndex, PastRow
from daemons.luxid.core.past.queries import Eyes
from daemons.luxid.history.index import PastIndex, open_index, read_list, read_sums
from protocol.luxi.history import Grouping, Past, ReadHistory, Sorting, SummarizeHistory

_ALL = Eyes(None)
_ADA = 1000
_seconds = st.none() | st.integers(0, 40).map(float)
_rows = st.builds(
    PastRow,
    job_id=st.just(JobId(0)),
    state=st.sampled_from(sorted(FINAL, key=lambda state: state.value)),
    name=st.sampled_from(["", "backup", "Backup"]),
    summary=st.sampled_from(["RUN_COMMAND(rsync --secret)", "TEST_DELAY(1)"]),
    public_summary=st.sampled_from(["RUN_COMMAND(rsync)", "TEST_DELAY(1)"]),
    user=st.sampled_from(["ada", "", "grace"]),
    uid=st.sampled_from([_ADA, 1001, -2]),
    labels=st.sampled_from([{}, {"team": "web"}, {"team": "db", "a.b/c": 'x"y'}]),
    received_at=_seconds,
    eligible_at=_seconds,
    start_at=_seconds,
    end_at=_seconds,
    wait_s=_seconds,
    run_s=_seconds,
    tries=st.integers(1, 3),
    exit_code=st.none() | st.integers(0, 2),
    why=st.sampled_from(["", "failed: secret"]),
    public_why=st.sampled_from(["", "failed"]),
    node=st.sampled_from(["", "node2"]),
    batch=st.sampled_from(["", "b1"]),
)
_ROW = PastRow(
    job_id=JobId(0),
    state=JobState.SUCCESS,
    name="",
    summary="",
    public_summary="",
    user="ada",
    uid=_ADA,
    labels={},
    received_at=None,
    eligible_at=None,
    start_at=None,
    end_at=None,
    wait_s=None,
    run_s=None,
    tries=1,
    exit_code=None,
    why="",
    public_why="",
    node="",
    batch="",
)
_texts = st.sampled_from(["", "backup", "ada", "web", "error", "RUN_COMMAND(rsync --secret)", "failed"])
_text_fields = st.sampled_from(
    ["name", "summary", "user", "status", "why", "node", "batch", "label.team", "label.none"]
)
_number_fields = st.sampled_from(["id", "received", "end_ts", "wait", "run_s", "tries", "exit"])
_orders = st.sampled_from(["==", "!=", "<", ">", "<=", ">="])
_leaves = (
    st.tuples(_orders, _text_fields, _texts)
    | st.tuples(_orders, _number_fields, st.integers(-1, 40))
    | st.tuples(st.just("=~"), _text_fields, st.sampled_from(["^b", "(?i)BACK", "secret$", "."]))
    | st.just(("?", "archived"))
)
_filters = st.recursive(
    _leaves.map(list),
    lambda inner: st.lists(inner, max_size=4).flatmap(
        lambda parts: st.sampled_from([["&", *parts], ["|", *parts], *([["!", parts[0]]] if parts else [])])
    ),
    max_leaves=8,
)


@contextlib.contextmanager
def _filled(folder: Path, rows: Sequence[PastRow]) -> Iterator[tuple[PastIndex, list[tuple[PastRow, ColumnIndex]]]]:
    placed = [(attrs.evolve(row, job_id=JobId(at)), ColumnIndex(at % 3)) for at, row in enumerate(rows, 1)]
    with contextlib.closing(open_index(folder / "history.sqlite")) as index:
        index.add(placed)
        yield index, placed


@settings(max_examples=60, deadline=None)
@given(st.lists(_rows, max_size=25), _filters, st.sampled_from([None, _ADA, -3]))
def test_a_filter_finds_the_same_jobs_as_a_scan(
    tmp_path_factory: pytest.TempPathFactory, rows: list[PastRow], wanted: list[object], uid: int | None
) -> None:
    holds = compile_expression(Expression.from_wire(wanted), lambda name: _field(name, uid), QUERY)

    with _filled(tmp_path_factory.mktemp("history"), rows) as (index, placed):
        jobs, total = read_list(index, ReadHistory(Past(filter=wanted), Sorting.ID, is_ascending=True), Eyes(uid))

    expected = [row.job_id for row, place in placed if holds((row, place))]
    assert ([job.id for job in jobs], total) == (expected, len(expected))
    if uid is not None:
        assert not [
            job for job in jobs if "secret" in f"{job.name}{job.summary}{job.why}" and _uid(placed, job.id) != uid
        ]


@settings(max_examples=40, deadline=None)
@given(st.lists(_rows, max_size=60), st.sampled_from([*Grouping]), st.floats(0, 40), st.booleans())
def test_sums_are_those_of_a_scan(
    tmp_path_factory: pytest.TempPathFactory, rows: list[PastRow], by: Grouping, since: float, is_bound: bool
) -> None:
    choice = Past(since=since, until=since + 10, states=(JobState.ERROR, JobState.CANCELED)) if is_bound else Past()

    with _filled(tmp_path_factory.mktemp("history"), rows) as (index, placed):
        sums = read_sums(index, SummarizeHistory(choice, by, label="team"), _ALL)

    chosen = [row for row, _ in placed if not is_bound or _is_chosen(row, since)]
    groups: dict[str, list[PastRow]] = {}
    for row in chosen:
        groups.setdefault(_group(row, by), []).append(row)
    assert [each.group for each in sums] == sorted(groups, key=lambda group: (-len(groups[group]), group))
    for each in sums:
        group = groups[each.group]
        waits, runs = _known(row.wait_s for row in group), _known(row.run_s for row in group)
        assert (each.count, each.failed) == (len(group), sum(row.state is JobState.ERROR for row in group))
        assert each.canceled == sum(row.state is JobState.CANCELED for row in group)
        assert each.retried == sum(row.tries > 1 for row in group)
        assert (each.p95_wait_s, each.p95_run_s) == (_p95(waits), _p95(runs))
        assert each.most_run_s == max(runs, default=None)
        for mean, values in ((each.mean_wait_s, waits), (each.mean_run_s, runs)):
            assert mean == (pytest.approx(sum(values) / len(values)) if values else None)


@settings(max_examples=40, deadline=None)
@given(st.lists(_rows, max_size=20), st.sampled_from([*Sorting]), st.booleans(), st.integers(0, 9), st.integers(0, 9))
def test_pages_follow_one_order_and_unknown_values_come_last(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[PastRow],
    sort: Sorting,
    is_ascending: bool,
    limit: int,
    offset: int,
) -> None:
    with _filled(tmp_path_factory.mktemp("history"), rows) as (index, _):
        whole, total = read_list(index, ReadHistory(Past(), sort, is_ascending), _ALL)
        page, _ = read_list(index, ReadHistory(Past(), sort, is_ascending, limit, offset), _ALL)

    keys = {"received": "received_at", "start": "start_at", "end": "end_at", "wait": "wait_s", "run": "run_s"}
    values = [(getattr(job, keys.get(sort.value, sort.value)), job.id) for job in whole]
    known = [value for value in values if value[0] is not None]
    assert values[: len(known)] == sorted(known, reverse=not is_ascending)
    assert (page, total) == (whole[offset : offset + limit], len(rows))


def test_a_text_alone_says_that_it_is_not_empty(tmp_path: Path) -> None:
    labels: list[dict[str, str]] = [{"team": "web"}, {"team": ""}, {}]
    nodes = ["", "node2", ""]
    rows = [attrs.evolve(_ROW, labels=each, node=node) for each, node in zip(labels, nodes, strict=True)]

    with _filled(tmp_path, rows) as (index, _):
        found = {
            text: sorted(
                job.id for job in read_list(index, ReadHistory(Past(filter=past_filter(text, 0.0, UTC))), _ALL)[0]
            )
            for text in ("label.team", "!label.team", "node", "!node", "label.team | node")
        }

    assert found == {
        "label.team": [1],
        "!label.team": [2, 3],
        "node": [2],
        "!node": [1, 3],
        "label.team | node": [1, 2],
    }


def test_what_does_not_fit_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with _filled(tmp_path, []) as (index, _):
        for wanted in (["==", "wait", "long"], ["==", "colour", "red"], ["?", "wait"], ["=[]", "name", "x"]):
            with pytest.raises(FilterError):
                read_list(index, ReadHistory(Past(filter=wanted)), _ALL)
        with pytest.raises(FilterError):
            read_list(index, ReadHistory(Past(filter=["==", "label.Team'", "x"])), _ALL)
        with pytest.raises(InvalidRequest):
            read_list(index, ReadHistory(limit=-1), _ALL)
        with pytest.raises(InvalidRequest, match="unknown time zone 'Mars'"):
            read_sums(index, SummarizeHistory(by=Grouping.DAY, zone="Mars"), _ALL)


def test_thousands_of_names_are_one_condition(tmp_path: Path) -> None:
    ids = [["==", "id", number] for number in range(15_000)]
    wanted = ["|", *ids, *(["<", "id", number] for number in range(2000))]

    with _filled(tmp_path, []) as (index, _):
        assert read_list(index, ReadHistory(Past(filter=wanted)), _ALL) == ((), 0)


def _field(name: str, uid: int | None) -> Field[tuple[PastRow, ColumnIndex]]:
    def read(placed: tuple[PastRow, ColumnIndex]) -> object:
        row, place = placed
        is_whole = uid is None or row.uid == uid
        summary = row.summary if is_whole else row.public_summary
        values: dict[str, object] = {
            **attrs.asdict(row),
            **{"id": row.job_id, "name": row.name or summary, "summary": summary, "status": row.state.value},
            **{"why": row.why if is_whole else row.public_why, "exit": row.exit_code if is_whole else None},
            **{"received": row.received_at, "end_ts": row.end_at, "wait": row.wait_s},
            "archived": place is not ColumnIndex.LIVE,
            "label.team": row.labels.get("team"),
            "label.none": None,
        }
        return NO_VALUE if values[name] is None else values[name]

    return Field(read)


def _uid(placed: Iterable[tuple[PastRow, ColumnIndex]], job_id: int) -> int:
    return next(row.uid for row, _ in placed if row.job_id == job_id)


def _is_chosen(row: PastRow, since: float) -> bool:
    is_within = row.end_at is not None and since <= row.end_at < since + 10
    return is_within and row.state in (JobState.ERROR, JobState.CANCELED)


def _group(row: PastRow, by: Grouping) -> str:
    match by:
        case Grouping.NAME:
            return row.name or row.summary
        case Grouping.USER:
            return row.user
        case Grouping.LABEL:
            return row.labels.get("team", "")
        case Grouping.STATUS:
            return row.state.value
        case Grouping.DAY:
            return "" if row.end_at is None else "1970-01-01"


def _known(values: Iterable[float | None]) -> list[float]:
    return sorted(value for value in values if value is not None)


def _p95(values: Sequence[float]) -> float | None:
    if len(values) < 20:
        return max(values, default=None)
    return values[math.ceil(0.95 * len(values)) - 1]
