"""Which ended jobs are due to be removed, against the words of the settings (everyday.md sections g, j)."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.featuresettings import RetentionSettings
from common.ids import JobId
from common.queue.jobs import FINAL, Job, JobOp, JobState
from common.queue.reasons import Batch, batch_entry
from daemons.luxid.core.past.endedrow import ColumnIndex, PastRow, past_row
from daemons.luxid.core.retention import DAY_S, Mark, RetentionClaims, claims_of
from daemons.luxid.history.index import open_index
from daemons.luxid.history.upkeep import texts_of_archive
from daemons.luxid.retention import select_due

NOW = 1000 * DAY_S
_EMPTY = past_row(Job(JobId(1), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, JobState.SUCCESS),)), texts_of_archive())
_rows = st.builds(
    lambda name, summary, state, days, place: (
        attrs.evolve(
            _EMPTY, name=name, summary=summary, state=state, end_at=None if days is None else NOW - days * DAY_S
        ),
        place,
    ),
    st.sampled_from(["", "", "yearly"]),
    st.sampled_from(["A", "B", "yearly"]),
    st.sampled_from(sorted(FINAL, key=lambda state: state.value)),
    st.none() | st.integers(-1, 12).map(lambda days: days + 0.5),
    st.sampled_from([*ColumnIndex]),
)
_rules = st.builds(
    RetentionSettings,
    archive_after_s=st.sampled_from([0.0, 2 * DAY_S]),
    keep_days=st.sampled_from([0.0, 3.0, 8.0]),
    keep_failed_days=st.sampled_from([0.0, 3.0, 8.0]),
    keep_jobs=st.sampled_from([0, 1, 5]),
    keep_per_name=st.integers(0, 3),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(_rows, max_size=25), _rules)
def test_exactly_what_the_settings_say_is_due(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[PastRow, ColumnIndex]], rules: RetentionSettings
) -> None:
    placed = [(attrs.evolve(row, job_id=JobId(at)), place) for at, (row, place) in enumerate(rows, 1)]
    with contextlib.closing(open_index(tmp_path_factory.mktemp("index") / "history.sqlite")) as index:
        index.add(placed)
        to_archive, marks = select_due(index, rules, NOW)

    assert to_archive == [
        row.job_id for row, place in placed if place is ColumnIndex.LIVE and _is_archivable(row, rules)
    ]
    assert [mark.job_id for mark in marks] == _due(placed, rules)


def _due(placed: Sequence[tuple[PastRow, ColumnIndex]], rules: RetentionSettings) -> list[JobId]:
    kept = [row for row, place in placed if place is not ColumnIndex.REMOVED]
    latest = sorted(kept, key=lambda row: (row.end_at is not None, row.end_at or 0.0, row.job_id), reverse=True)
    found = []
    for row, place in placed:
        is_aside = place is ColumnIndex.ARCHIVED or (place is ColumnIndex.LIVE and _is_archivable(row, rules))
        if not is_aside:
            continue
        same = [each for each in latest if (each.name or each.summary) == (row.name or row.summary)]
        if row in same[: rules.keep_per_name]:
            continue
        days = rules.keep_failed_days if row.state is JobState.ERROR else rules.keep_days
        is_old = bool(days) and row.end_at is not None and row.end_at < NOW - days * DAY_S
        if is_old or (rules.keep_jobs and row not in latest[: rules.keep_jobs]):
            found.append(row.job_id)
    return found


def _is_archivable(row: PastRow, rules: RetentionSettings) -> bool:
    return bool(rules.archive_after_s) and row.end_at is not None and row.end_at < NOW - rules.archive_after_s


def test_whatever_something_needs_is_kept() -> None:
    claims = RetentionClaims({3}, {"b1"}, [range(10, 12)], lambda job_id: job_id != 20)

    marks = [
        Mark(JobId(number), 0.0, batch)
        for number, batch in ((3, ""), (4, "b1"), (5, "b2"), (10, ""), (12, ""), (20, ""))
    ]

    assert [mark.job_id for mark in marks if claims.allow(mark)] == [5, 12]


class Counted(list[range]):
    """Ranges that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[range]:
        for job_ids in super().__iter__():
            self.looks += 1
            yield job_ids


def test_a_day_of_submissions_costs_each_job_a_few_looks() -> None:
    keyed = Counted(range(3 * number, 3 * number + 2) for number in range(1, 30_001))
    claims = RetentionClaims(set(), set(), keyed, lambda _: True)
    marks = [Mark(JobId(number), 0.0, "") for number in (1, 2, 3, 4, 5, 45_002, 90_000, 90_001, 90_002)]

    assert [mark.job_id for mark in marks if claims.allow(mark)] == [1, 2, 5, 45_002, 90_002]
    assert keyed.looks <= 20 * len(marks)


def test_an_unended_job_needs_what_any_unended_opcode_names() -> None:
    batch = batch_entry(Batch("b1", 1, 2), 0).to_wire()
    ops = (
        JobOp({"OP_ID": "OP_X", "depends": [[1, []]], "reason": [batch]}, JobState.SUCCESS),
        JobOp({"OP_ID": "OP_X", "depends": [[2, []], ["3", ["success"]], "nonsense", [None]]}),
        JobOp({"OP_ID": "OP_X", "depends": None}),
        JobOp({"OP_ID": "OP_X", "depends": [[4, []]]}),
    )

    assert claims_of(Job(JobId(9), ops)) == ([2, 3, 4], "b1")
