"""The output of a job in pieces, and its last lines. DESIGN section 7."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.commands.output import (
    OutputFile,
    OutputMark,
    OutputMarks,
    OutputSink,
    Tail,
    pieces_of,
    read_marks,
    read_output,
    stream_end,
)


def content(base: Path) -> dict[int, bytes]:
    return {start: Path(f"{base}.{start:020d}").read_bytes() for start in pieces_of(base)}


def test_pieces_are_named_by_the_offset_of_their_first_byte(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job-1", 20)
    output.append(b"0123456789abcdef")
    output.close()

    assert content(tmp_path / "job-1") == {0: b"0123456789", 10: b"abcdef"}


def test_only_the_last_two_pieces_are_kept(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job-1", 20)
    for number in range(10):
        output.append(f"line {number}\n".encode())
    output.close()

    kept = content(tmp_path / "job-1")
    assert sorted(kept) == [50, 60]
    assert kept[50] + kept[60] == b"".join(f"line {number}\n".encode() for number in range(10))[50:]


def test_other_jobs_and_strange_names_are_passed_over(tmp_path: Path) -> None:
    for name in ("job-11.00000000000000000000", "job-1", "job-1.7", "job-1.0000000000000000000x"):
        (tmp_path / name).write_bytes(b"x")

    assert pieces_of(tmp_path / "job-1") == []


def test_nothing_printed_makes_no_file(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job-1", 20)
    output.append(b"")
    output.close()

    assert pieces_of(tmp_path / "job-1") == []


@given(chunks=st.lists(st.binary(max_size=40), max_size=20), limit=st.integers(2, 50), reopen=st.booleans())
def test_kept_pieces_are_the_end_of_the_stream(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], limit: int, reopen: bool
) -> None:
    """Whatever the sizes, and also when another process of the job goes on."""
    base = tmp_path_factory.mktemp("output") / "job-1"
    output = OutputFile(base, limit)
    for chunk in chunks:
        output.append(chunk)
        if reopen:
            output.close()
            output = OutputFile(base, limit)
    output.close()

    whole = b"".join(chunks)
    kept = content(base)
    assert len(kept) <= 2
    assert all(len(data) <= limit // 2 for data in kept.values())
    assert all(whole[start : start + len(data)] == data for start, data in kept.items())
    if whole:
        last = max(kept)
        assert last + len(kept[last]) == len(whole)


def test_tail_has_the_last_lines_cut_at_500_characters() -> None:
    tail = Tail(2)
    tail.feed(b"one\ntwo\r\n" + b"x" * 600 + b"\n")

    assert tail.lines() == ["two", "x" * 500]


def test_tail_keeps_an_unfinished_last_line() -> None:
    tail = Tail(3)
    tail.feed(b"one\ntw")
    tail.feed("ö".encode())

    assert tail.lines() == ["one", "twö"]


def test_tail_of_nothing_is_empty() -> None:
    assert Tail(3).lines() == []
    silent = Tail(0)
    silent.feed(b"x\n")
    assert silent.lines() == []


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=30)),
    count=st.integers(1, 5),
    size=st.integers(1, 17),
)
def test_tail_is_that_of_the_whole_stream_whatever_the_pieces(lines: list[str], count: int, size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    tail = Tail(count)
    for start in range(0, len(data), size):
        tail.feed(data[start : start + size])

    assert tail.lines() == lines[-count:]


def test_left_out_bytes_keep_the_offsets_of_the_others(tmp_path: Path) -> None:
    output = OutputFile(tmp_path / "job-1", 40)
    output.append(b"0123")
    output.skip(6)
    output.append(b"abcd")

    assert content(tmp_path / "job-1") == {0: b"0123", 10: b"abcd"}
    assert output.end == OutputFile(tmp_path / "job-1", 40).end == 14
    assert output.last(6, 0) == b"abcd"
    assert output.last(100, 2) == b"23abcd"


def test_output_is_read_from_any_byte_on(tmp_path: Path) -> None:
    base = tmp_path / "out"
    for start, content in ((100, b"abcde"), (105, b"fgh")):
        Path(f"{base}.{start:020d}").write_bytes(content)

    def read(offset: int, limit: int = 100) -> tuple[int, bytes]:
        found = read_output(base, offset, limit)
        return found.offset, found.content

    # what was before is removed
    assert read(0) == (100, b"abcdefgh")
    assert read(103) == (103, b"defgh")
    assert read(103, 1) == (103, b"d")
    assert read(105) == (105, b"fgh")
    assert read(108) == (108, b"")
    assert read(2**62) == (2**62, b"")
    assert stream_end(base) == 108


def test_a_sink_makes_the_folder_of_its_output_when_there_is_some(tmp_path: Path) -> None:
    folder = tmp_path / "1.0.1"
    sink = OutputSink(OutputFile(folder / "out", 100, makes_folder=True))

    assert not folder.exists()
    sink.take(b"some")
    sink.take(b" more")
    sink.close()

    assert read_output(folder / "out", 0, 100).content == b"some more"


# The times beside the pieces.


ALL = 2**63


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def timed(folder: Path, limit: int, clock: Clock) -> OutputFile:
    return OutputFile(folder / "job-1", limit, now=clock)


def times(folder: Path, begin: int = 0, end: int = ALL, most: int = 100_000) -> list[tuple[int, float | None]]:
    return [(mark.offset, mark.at) for mark in read_marks(folder / "job-1", begin, end, most).marks]


def record(folder: Path, start: int = 0) -> Path:
    return folder / f"job-1.times.{start:020d}"


def test_what_comes_within_a_quarter_of_a_second_has_one_time(tmp_path: Path) -> None:
    clock = Clock()
    output = timed(tmp_path, 10_000, clock)
    for _ in range(9):
        output.append(b"line\n")
        clock.now += 0.125
    output.close()

    assert times(tmp_path) == [(0, 1000.0), (10, 1000.25), (20, 1000.5), (30, 1000.75), (40, 1001.0)]
    assert times(tmp_path, 12, 31) == [(10, 1000.25), (20, 1000.5), (30, 1000.75)]
    assert times(tmp_path, 10, 11) == [(10, 1000.25)]
    assert read_marks(tmp_path / "job-1", 0, ALL, 2) == OutputMarks(
        (OutputMark(0, 1000.0), OutputMark(10, 1000.25)), 20
    )


def test_a_clock_that_was_set_back_is_believed(tmp_path: Path) -> None:
    clock = Clock()
    output = timed(tmp_path, 10_000, clock)
    output.append(b"before\n")
    clock.now = 400.0
    output.append(b"after\n")
    output.close()

    assert times(tmp_path) == [(0, 1000.0), (7, 400.0)]


def test_the_times_of_a_piece_go_with_it(tmp_path: Path) -> None:
    clock = Clock()
    output = timed(tmp_path, 20, clock)
    for _ in range(6):
        output.append(b"0123456789")
        clock.now += 1
    output.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"job-1{kind}.{start:020d}" for kind in ("", ".times") for start in (40, 50)
    ]
    assert times(tmp_path) == [(40, 1004.0), (50, 1005.0)]


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=200))
def test_times_need_no_more_than_half_of_the_output_and_four_kib(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder, clock = tmp_path_factory.mktemp("output"), Clock()
    output = timed(folder, 10**6, clock)
    for size in sizes * 5:
        output.append(b"x" * size)
        clock.now += 1
    output.close()

    assert record(folder).stat().st_size <= 4096 + sum(sizes) * 5 // 2
    assert times(folder)[0] == (0, 1000.0)


def test_another_process_of_the_job_goes_on_behind_a_mark_that_was_cut_off(tmp_path: Path) -> None:
    clock = Clock()
    output = timed(tmp_path, 10_000, clock)
    output.append(b"one\n")
    output.close()
    record(tmp_path).write_bytes(record(tmp_path).read_bytes() + b"cut")
    clock.now = 1000.1

    again = timed(tmp_path, 10_000, clock)
    again.append(b"two\n")
    again.close()

    assert times(tmp_path) == [(0, 1000.0), (4, 1000.1)]


def test_a_process_that_was_killed_between_mark_and_bytes_leaves_no_wrong_time(tmp_path: Path) -> None:
    clock = Clock()
    output = timed(tmp_path, 10_000, clock)
    output.append(b"one\n")
    output.close()
    record(tmp_path).write_bytes(record(tmp_path).read_bytes() + (4).to_bytes(8) + (1_001_000).to_bytes(8))
    clock.now = 1060.0

    again = timed(tmp_path, 10_000, clock)
    again.append(b"two\n")
    again.close()

    assert times(tmp_path) == [(0, 1000.0), (4, 1060.0)]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 16,
        b"\xff" * 32,
        (0).to_bytes(8) + (2**60).to_bytes(8),
        # offsets that fall, and one beyond the piece
        (8).to_bytes(8) + (1000).to_bytes(8) + (4).to_bytes(8) + (1000).to_bytes(8),
        (11).to_bytes(8) + (1000).to_bytes(8),
    ],
)
def test_a_record_that_is_damaged_tells_no_times_and_others_do(tmp_path: Path, damage: bytes) -> None:
    clock = Clock()
    output = timed(tmp_path, 20, clock)
    output.append(b"0123456789abc")
    output.close()
    record(tmp_path).write_bytes(damage)

    assert times(tmp_path) == [(0, None), (10, 1000.0)]
    assert read_output(tmp_path / "job-1", 0, 100).content == b"0123456789abc"


def test_output_of_before_times_were_kept_has_none(tmp_path: Path) -> None:
    OutputFile(tmp_path / "job-1", 10_000, now=None).append(b"old\n")
    assert list(tmp_path.glob("*.times.*")) == []
    clock = Clock()

    timed(tmp_path, 10_000, clock).append(b"new\n")

    assert times(tmp_path) == [(0, None), (4, 1000.0)]
    assert times(tmp_path, 4, 6) == [(4, 1000.0)]
    assert times(tmp_path, 0, 4) == [(0, None)]


def test_a_record_that_cannot_be_written_costs_no_output(tmp_path: Path) -> None:
    record(tmp_path).mkdir()
    sink = OutputSink(timed(tmp_path, 10_000, Clock()))

    sink.take(b"one\n")
    sink.take(b"two\n")
    sink.close()

    assert not sink.is_broken
    assert read_output(tmp_path / "job-1", 0, 100).content == b"one\ntwo\n"


def test_nothing_printed_has_no_times(tmp_path: Path) -> None:
    output = timed(tmp_path, 20, Clock())
    output.append(b"")
    output.close()

    assert list(tmp_path.iterdir()) == []
    assert times(tmp_path) == []
