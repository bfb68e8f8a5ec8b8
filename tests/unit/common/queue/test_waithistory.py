"""What jobs waited for, beside their files (DESIGN section 6, "Explain"; ours)."""

import os
from pathlib import Path

import attrs
import pytest

from common.paths import WAITS_FILE_JOBS, Paths
from common.queue.explanation import Cause, Span, WaitKind, assemble
from common.queue.sidefiles import append_spans, read_spans

TURN = Cause(WaitKind.TURN)
LOCKS = Cause(WaitKind.LOCKS, (18,), ("node/web1",))
UNKNOWN = Cause(WaitKind.UNKNOWN)
FULL = Cause(WaitKind.LIMIT, (4,), ("2:backup",), ("me",), 3, 2, True, "the mirror is down")


def turn(since: float, until: float | None) -> Span:
    return Span(TURN, since, until)


def locks(since: float, until: float | None) -> Span:
    return Span(LOCKS, since, until)


@pytest.mark.parametrize("span", [turn(1.5, 2.25), locks(1.0, None), Span(FULL, 1700000000.123456, 1700000001.0)])
def test_a_span_is_read_as_it_was_written(tmp_path: Path, span: Span) -> None:
    append_spans(tmp_path / "0", [(7, span)])

    assert read_spans(tmp_path / "0", 7) == [span]


def test_jobs_share_a_file_and_each_finds_its_own_spans_in_order(tmp_path: Path) -> None:
    path = tmp_path / "0"
    append_spans(path, [(1, turn(1, 2)), (11, turn(3, 4))])
    append_spans(path, [(1, locks(5, 6))])

    assert read_spans(path, 1) == [turn(1, 2), locks(5, 6)]
    assert read_spans(path, 11) == [turn(3, 4)]
    assert read_spans(path, 111) == []
    assert read_spans(tmp_path / "none", 1) == []


def test_half_a_line_spoils_nothing_but_itself(tmp_path: Path) -> None:
    path = tmp_path / "0"
    append_spans(path, [(1, turn(1, 2)), (1, turn(3, 4))])
    path.write_bytes(path.read_bytes()[:-10])

    append_spans(path, [(1, turn(5, 6))])

    assert read_spans(path, 1) == [turn(1, 2), turn(5, 6)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"job":1,"kind":"weather","since":1,"until":2}',
        b'{"job":1,"kind":"turn","since":1}',
        b'{"job":1,"kind":"turn","since":"x","until":2}',
        b'{"job":1,"kind":"turn","since":1,"until":2,"job_ids":4}',
        b'{"job":1,',
    ],
)
def test_what_is_no_line_of_ours_is_skipped(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "0"
    path.write_bytes(line + b"\n")
    append_spans(path, [(1, turn(5, 6))])

    assert read_spans(path, 1) == [turn(5, 6)]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        append_spans(Path("/dev/full"), [(1, turn(1, 2))])


def test_live_and_archived_jobs_have_the_same_file() -> None:
    paths = Paths(Path("/d"), Path("/r"), Path("/l"))

    assert paths.waits_file(0) == paths.waits_file(WAITS_FILE_JOBS - 1) == Path("/d/waits/0")
    assert paths.waits_file(WAITS_FILE_JOBS) == Path("/d/waits/1")
    assert os.path.commonpath([paths.queue, paths.waits]) == "/d"


def test_short_spans_are_not_shown_and_others_come_by_their_beginning() -> None:
    written = [turn(20, 30), turn(1, 1.05), locks(40, 45)]

    assert assemble(written, [turn(10, 12)], 0, None) == (turn(10, 12), turn(20, 30), locks(40, 45))


def test_the_end_of_a_wait_for_locks_replaces_its_beginning() -> None:
    beginning = attrs.evolve(locks(1, None), cause=Cause(WaitKind.LOCKS, (17,), ("node/web1",)))

    assert assemble([beginning, locks(1, 3)], [], 0, None) == (locks(1, 3),)
    assert assemble([locks(1, None)], [], 0, None) == (locks(1, None),)


def test_a_wait_whose_process_died_ends_where_the_job_went_on_or_ended() -> None:
    assert assemble([locks(1, None), turn(5, 6)], [], 0, None) == (locks(1, 5), turn(5, 6))
    assert assemble([locks(1, None)], [], 0, 9) == (locks(1, 9),)
    assert assemble([turn(1, 2)], [], 0, 9) == (turn(1, 2),)


def test_what_no_luxid_saw_is_unknown_from_where_something_was_known() -> None:
    """Each luxid after the first only knows that the job was there before it."""
    first, second, third = Span(UNKNOWN, 1, 10), Span(UNKNOWN, 1, 20), Span(UNKNOWN, 1, 30)

    assert assemble([], [first, turn(10, None)], 1, None) == (first, turn(10, None))
    assert assemble([first, turn(10, 15), second, turn(20, 30)], [third, turn(30, 40)], 1, None) == (
        *(first, turn(10, 15), Span(UNKNOWN, 15, 20), turn(20, 30), turn(30, 40)),
    )


def test_spans_of_an_earlier_job_with_the_same_id_are_left_out() -> None:
    assert assemble([turn(100, 110), turn(5000, 5010)], [], 4990, None) == (turn(5000, 5010),)
