"""Output as luxid reads it, over the borders of its files."""

from pathlib import Path

from common.commands.output import OutputBytes, OutputFile, read_output
from daemons.luxid.outputs import LONGEST_PIECE, decode_whole


def written(folder: Path, *parts: bytes, piece_bytes: int) -> Path:
    base = folder / "job-1"
    file = OutputFile(base, 2 * piece_bytes)
    for part in parts:
        file.append(part)
    file.close()
    return base


def test_a_character_that_begins_in_one_file_and_ends_in_the_next_is_read_whole(tmp_path: Path) -> None:
    base = written(tmp_path, "1234\N{EURO SIGN}5".encode(), piece_bytes=5)

    text, size = decode_whole(read_output(base, 0, LONGEST_PIECE).content, is_end=False)
    rest, _ = decode_whole(read_output(base, 4, LONGEST_PIECE).content, is_end=False)

    assert (text, size, rest) == ("1234\N{EURO SIGN}5", 8, "\N{EURO SIGN}5")


def test_no_more_is_read_than_was_asked_for(tmp_path: Path) -> None:
    base = written(tmp_path, b"0123456789", piece_bytes=5)

    assert read_output(base, 0, 3) == OutputBytes(0, b"012")
    assert read_output(base, 2, 5) == OutputBytes(2, b"23456")
    assert read_output(base, 0, 5) == OutputBytes(0, b"01234")
    assert read_output(base, 10, LONGEST_PIECE) == OutputBytes(10, b"")


def test_output_before_a_gap_and_after_it_are_two_pieces(tmp_path: Path) -> None:
    file = OutputFile(tmp_path / "job-1", 100)
    file.append(b"before")
    file.skip(4)
    file.append(b"after")
    file.close()

    assert read_output(tmp_path / "job-1", 2, LONGEST_PIECE) == OutputBytes(2, b"fore")
    assert read_output(tmp_path / "job-1", 6, LONGEST_PIECE) == OutputBytes(10, b"after")
