"""The output of a job in pieces, and its last lines. DESIGN section 7."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.commands.output import OutputFile, OutputSink, Tail, pieces_of, read_output, stream_end


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
