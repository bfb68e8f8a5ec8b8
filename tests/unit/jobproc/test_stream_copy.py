"""Copies of a node command's output in the files of its job."""

from pathlib import Path

from common.commands.output import OutputFile, pieces_of
from common.system.signals import ProcessSignals
from daemons.jobproc.nodecommands.nodecommand import StreamCopy


def copy_into(folder: Path) -> StreamCopy:
    return StreamCopy.of(OutputFile(folder / "job-1", 1000), 3, ProcessSignals())


def test_a_later_process_knows_the_last_lines_of_what_was_copied_before(tmp_path: Path) -> None:
    OutputFile(tmp_path / "job-1", 1000).append(b"of another opcode\n")
    first = copy_into(tmp_path)
    first.recall(18)
    first.take(0, b"one\ntwo\n")

    second = copy_into(tmp_path)
    second.recall(18)
    second.take(0, b"three\n")

    assert second.stream.placed(18).taken == 8
    assert second.written(14).tail == ["one", "two", "three"]


def test_the_offsets_stay_on_a_master_that_has_no_output_of_earlier_opcodes(tmp_path: Path) -> None:
    """Output is not copied to candidates: the command's is fetched again, at its place."""
    first = copy_into(tmp_path)
    assert first.stream.placed(18).taken == 0
    first.recall(18)
    first.take(0, b"one\ntwo\n")

    second = copy_into(tmp_path)

    assert pieces_of(tmp_path / "job-1") == [18]
    assert second.stream.placed(18).taken == 8
