"""Notes of who asked for the end of a job: they tell, and decide nothing (common/queue/sidefiles.py)."""

from pathlib import Path

import pytest

from common.queue.sidefiles import asked_by, note_asker


def test_a_note_tells_the_user(tmp_path: Path) -> None:
    note_asker(tmp_path / "7.asker", 1003)

    assert asked_by(tmp_path / "7.asker") == " of user 1003"


@pytest.mark.parametrize("content", [b"", b"user", b"user \xff", b"\xff\xfe", b"user 1\nof ours", b"user -1"])
def test_a_note_that_is_not_whole_tells_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "7.asker").write_bytes(content)

    assert asked_by(tmp_path / "7.asker") == ""


def test_without_a_note_nothing_is_told(tmp_path: Path) -> None:
    assert asked_by(tmp_path / "7.asker") == ""
