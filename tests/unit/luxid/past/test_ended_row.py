"""What the history keeps of an ended job (DESIGN section 16; everyday.md section g)."""

import contextlib
import stat
from pathlib import Path
from typing import Any

from common.ids import JobId
from common.queue.explanation import Cause, Span, WaitKind
from common.queue.jobs import Job, JobOp, JobState, Timestamp
from common.queue.reasons import Batch, JobOwner, Try, batch_entry, owner_entries, try_entry
from common.queue.terms import JobTerms, terms_entry
from daemons.luxid.core.past.endedrow import OWN_UID, ColumnIndex, PastRow, freed_at, past_row, was_kept
from daemons.luxid.history.index import open_index
from daemons.luxid.history.upkeep import texts_of_archive, texts_of_queue


def _at(seconds: float) -> Timestamp:
    return (int(seconds), round(seconds % 1 * 1e6))


def _op(
    state: JobState = JobState.SUCCESS,
    *,
    result: object = None,
    begun: float | None = 110.0,
    ended: float | None = 115.0,
    trail: object = (),
    **params: Any,
) -> JobOp:
    op_input = {"OP_ID": "OP_RUN_COMMAND", "argv": ["rsync", "--password=secret", "/srv"], "reason": trail, **params}
    stamps = (None if begun is None else _at(begun), None if ended is None else _at(ended))
    return JobOp(op_input, state, result, (), 0, stamps[0], *stamps)


def _job(*ops: JobOp, end: float = 115.0) -> Job:
    return Job(JobId(7), ops, _at(100.0), _at(105.0), _at(end))


def test_a_job_waits_from_its_receipt_until_it_is_executed_and_runs_until_its_end() -> None:
    row = _row(_job(_op(result={"exit_code": 0})))

    assert (row.received_at, row.eligible_at, row.start_at, row.end_at) == (100.0, 100.0, 110.0, 115.0)
    assert (row.wait_s, row.run_s, row.tries, row.exit_code, row.why) == (10.0, 5.0, 1, 0, "")
    assert row.uid == OWN_UID


def test_neither_its_begin_nor_its_dependencies_count_as_waiting() -> None:
    begin = terms_entry(JobTerms(begin_at=104.0), 0).to_wire()
    spans = [
        Span(Cause(WaitKind.DEPENDENCY, (3,)), 100.0, 103.0),
        Span(Cause(WaitKind.DEPENDENCY, (4,)), 103.0, 108.0),
        Span(Cause(WaitKind.LOCKS), 108.0, 110.0),
        # of an earlier job with the same id
        Span(Cause(WaitKind.DEPENDENCY), 10.0, 20.0),
    ]
    job = _job(_op(trail=[begin], depends=[[3, []], [4, []]]))

    assert was_kept(job)
    assert _row(job).wait_s == 6.0
    freed = _row(job, freed_at(job, spans))
    assert (freed.eligible_at, freed.wait_s) == (108.0, 2.0)


def test_what_keeps_a_job_between_its_opcodes_does_not_make_it_eligible_later() -> None:
    spans = [
        Span(Cause(WaitKind.DEPENDENCY, (3,)), 100.0, 103.0),
        Span(Cause(WaitKind.DEPENDENCY, (4,)), 115.0, 150.0),
        Span(Cause(WaitKind.HOLD), 150.0, 160.0),
    ]
    job = _job(_op(depends=[[3, []]]))

    row = _row(job, freed_at(job, spans))

    assert (row.eligible_at, row.start_at, row.wait_s) == (103.0, 110.0, 7.0)


def test_the_time_on_hold_does_not_count_as_waiting_also_after_the_release() -> None:
    held = terms_entry(JobTerms(), 106_000_000_000).to_wire()
    never = terms_entry(JobTerms("backup"), 99_000_000_000).to_wire()
    spans = [Span(Cause(WaitKind.HOLD), 100.0, 106.0), Span(Cause(WaitKind.TURN), 106.0, 110.0)]
    job = _job(_op(trail=[held]))

    assert was_kept(job)
    freed = _row(job, freed_at(job, spans))
    assert (freed.eligible_at, freed.wait_s) == (106.0, 4.0)
    # of other jobs no further file is read
    assert not was_kept(_job(_op(trail=[never])))
    assert not was_kept(_job(_op()))


def test_tries_are_counted_and_only_their_own_time_is_run_time() -> None:
    tries = [
        try_entry(Try(number, start, start + 2.0, "ended with exit code 75", 75, start + 30.0, 0)).to_wire()
        for number, start in ((1, 110.0), (2, 140.0))
    ]
    row = _row(_job(_op(JobState.ERROR, result=_failure(3), trail=tries, begun=170.0, ended=171.0), end=171.0))

    assert (row.tries, row.start_at, row.wait_s, row.run_s) == (3, 110.0, 10.0, 5.0)
    assert row.exit_code == 3


def test_others_see_neither_arguments_nor_why_it_failed() -> None:
    owner = [entry.to_wire() for entry in owner_entries(JobOwner(1000, "ada"), 0)]
    row = _row(_job(_op(JobState.ERROR, result=_failure(3), trail=owner)))

    assert "secret" in row.summary
    assert "rsync" in row.public_summary
    assert "secret" not in row.public_summary
    assert row.why == f"failed, {row.summary}: ended with exit code 3"
    assert "exit code" not in row.public_why
    assert "secret" not in row.public_why
    assert (row.user, row.uid) == ("ada", 1000)


def test_name_labels_and_batch_are_read_from_the_trail() -> None:
    terms = terms_entry(JobTerms("backup", {"team": "web"}), 0).to_wire()
    row = _row(_job(_op(trail=[terms, batch_entry(Batch("b1", 2, 5), 0).to_wire()])))

    assert (row.name, dict(row.labels), row.batch) == ("backup", {"team": "web"}, "b1")


def test_a_job_that_never_began_has_no_times() -> None:
    row = _row(_job(_op(JobState.CANCELED, begun=None), end=120.0))

    assert (row.start_at, row.wait_s, row.run_s, row.end_at) == (None, None, None, 120.0)
    assert row.why.startswith("canceled")


def test_a_clock_that_was_set_back_makes_no_negative_times() -> None:
    row = _row(_job(_op(begun=50.0, ended=40.0)))

    assert (row.wait_s, row.run_s) == (0.0, 0.0)


def _row(job: Job, freed: float | None = None) -> PastRow:
    row = past_row(job, texts_of_archive(), freed)
    # whether it was read from its file or has just ended
    assert row == past_row(job, texts_of_queue(), freed)
    return row


def _failure(code: int) -> list[object]:
    return ["CommandFailed", [f"ended with exit code {code}", {"exit_code": code}]]


def test_a_number_beyond_those_of_the_index_is_no_exit_code(tmp_path: Path) -> None:
    """Whoever wrote the file: a row that cannot be written must not end luxid, at this start and at each later one."""
    row = _row(_job(_op(result={"exit_code": 2**64 - 1})))

    with contextlib.closing(open_index(tmp_path / "history.sqlite")) as index:
        index.add([(row, ColumnIndex.LIVE)])
    assert row.exit_code is None


def test_the_index_and_the_files_beside_it_are_for_the_daemons_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"

    with contextlib.closing(open_index(path)):
        modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()}

    assert modes == dict.fromkeys(("history.sqlite", "history.sqlite-wal", "history.sqlite-shm"), 0o600)
