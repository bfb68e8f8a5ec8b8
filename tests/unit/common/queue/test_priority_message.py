"""luxid's message with a job's new priority. luxid.md 2.5."""

from pathlib import Path

import pytest

from common.queue.sidefiles import left_priority, remove_priority, taken_priority, write_priority


def take_priority(message: Path) -> int | None:
    with taken_priority(message) as priority:
        return priority


def test_a_message_is_taken_once_and_leaves_nothing(tmp_path: Path) -> None:
    message = tmp_path / "1.prio"
    message.write_text("-10")

    assert take_priority(message) == -10
    assert take_priority(message) is None
    assert list(tmp_path.iterdir()) == []


def test_a_message_that_comes_while_another_is_read_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, read = tmp_path / "1.prio", Path.read_text
    message.write_text("10")

    def read_late(path: Path) -> str:
        text = read(path)
        message.write_text("-10")
        return text

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", read_late)
        assert take_priority(message) == 10

    assert take_priority(message) == -10


def test_a_priority_beyond_the_limits_is_the_nearest_one_within(tmp_path: Path) -> None:
    message = tmp_path / "1.prio"
    message.write_text("-1000")

    assert take_priority(message) == -20


def test_a_message_that_is_no_number_is_told_and_taken(tmp_path: Path) -> None:
    message = tmp_path / "1.prio"
    message.write_text("high")

    with pytest.raises(ValueError, match="high"):
        take_priority(message)

    assert take_priority(message) is None


def test_a_message_is_left_until_it_is_applied(tmp_path: Path) -> None:
    message = tmp_path / "1.prio"
    assert left_priority(message) is None
    write_priority(message, -10)
    assert left_priority(message) == -10

    with taken_priority(message) as priority:
        assert (priority, left_priority(message)) == (-10, -10)
        write_priority(message, 10)
        assert left_priority(message) == 10

    assert left_priority(message) == 10
    remove_priority(message)
    assert left_priority(message) is None
    assert list(tmp_path.iterdir()) == []
