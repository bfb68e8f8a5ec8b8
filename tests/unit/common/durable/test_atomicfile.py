"""Files are replaced and moved whole, or not at all, with few fsyncs."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from common.durable.atomicfile import FileWrite, move_files, write_file, write_files
from common.durable.folders import NotYetDurable


def count_fsyncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of what is fsync'ed from now on: 'file' or 'folder'."""
    kinds: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        kinds.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return kinds


def fail_on_call(number: int, real: Callable[..., object]) -> Callable[..., object]:
    calls = iter(range(1, 1_000_000))

    def call(*args: object) -> object:
        if next(calls) == number:
            raise OSError(28, "No space left on device")
        return real(*args)

    return call


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_written_files_have_the_content_and_exactly_the_mode_asked_for(tmp_path: Path) -> None:
    old_umask = os.umask(0o077)
    try:
        write_files([FileWrite(tmp_path / "a", b"1"), FileWrite(tmp_path / "b", b"", 0o640)])
    finally:
        os.umask(old_umask)

    assert contents(tmp_path) == {"a": b"1", "b": b""}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640


def test_a_batch_costs_one_fsync_a_file_and_one_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    kinds = count_fsyncs(monkeypatch)

    write_files([FileWrite(tmp_path / folder / str(n), b"1") for n in range(300) for folder in "xy"])

    assert kinds == ["file"] * 600 + ["folder"] * 2


def test_no_file_is_renamed_before_all_contents_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        steps.append("fsync")
        real_fsync(fd)

    def rename(old: str, new: Path) -> None:
        steps.append("rename")
        real_rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)

    write_files([FileWrite(tmp_path / name, b"1") for name in "abc"])

    assert steps == ["fsync"] * 3 + ["rename"] * 3 + ["fsync"]


def test_the_last_write_to_a_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = count_fsyncs(monkeypatch)

    write_files([FileWrite(tmp_path / "a", content) for content in (b"1", b"2", b"3")])

    assert contents(tmp_path) == {"a": b"3"}
    assert kinds == ["file", "folder"]


def test_nothing_to_write_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = count_fsyncs(monkeypatch)

    write_files([])

    assert kinds == []


@pytest.mark.parametrize("function", ["open", "write", "fsync"])
@pytest.mark.parametrize("number", [1, 3, 260])
def test_a_failing_content_leaves_all_old_files_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    names = [str(n) for n in range(260)]
    for name in names[:5]:
        (tmp_path / name).write_bytes(b"old")
    before = contents(tmp_path)

    with monkeypatch.context() as patched:
        patched.setattr(os, function, fail_on_call(number, getattr(os, function)))
        with pytest.raises(OSError, match="No space left"):
            write_files([FileWrite(tmp_path / name, b"new") for name in names])

    assert contents(tmp_path) == before


def test_a_failing_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()

    with pytest.raises(IsADirectoryError):
        write_files([FileWrite(tmp_path / name, b"new") for name in "abc"])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_missing_folder_is_an_error_and_the_other_files_stay_old(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_files([FileWrite(tmp_path / "a", b"1"), FileWrite(tmp_path / "nowhere" / "b", b"2")])

    assert contents(tmp_path) == {}


def test_a_write_leaks_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))

    write_files([FileWrite(tmp_path / str(n), b"1") for n in range(20)])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail_on_call(7, os.fsync))
        with pytest.raises(OSError, match="No space left"):
            write_files([FileWrite(tmp_path / str(n), b"2") for n in range(20)])

    assert len(os.listdir("/proc/self/fd")) == before


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, content: real(fd, memoryview(content)[:3]))

    write_file(tmp_path / "a", b"0123456789")

    assert contents(tmp_path) == {"a": b"0123456789"}


def test_a_temporary_file_lies_beside_its_target_and_is_called_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renames: list[tuple[Path, Path]] = []
    real = os.rename

    def rename(old: str, new: Path) -> None:
        renames.append((Path(old), new))
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)

    write_file(tmp_path / "job-7", b"1")

    [(temp, target)] = renames
    assert target == tmp_path / "job-7"
    assert temp.parent == tmp_path
    assert temp.name.startswith("job-7-")
    assert temp.suffix == ".tmp"


def test_moving_makes_folders_and_syncs_each_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "archive"
    for n in range(4):
        (tmp_path / f"job-{n}").write_bytes(b"%d" % n)
    kinds = count_fsyncs(monkeypatch)

    move_files([(tmp_path / f"job-{n}", archive / str(n // 2) / f"job-{n}") for n in range(4)])

    assert contents(archive / "0") == {"job-0": b"0", "job-1": b"1"}
    assert contents(archive / "1") == {"job-2": b"2", "job-3": b"3"}
    assert stat.S_IMODE((archive / "1").stat().st_mode) == 0o750
    # the archive's parent, the archive; then its two folders, the source
    assert kinds == ["folder"] * 5


def test_nothing_is_moved_into_a_folder_that_is_not_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job-1").write_bytes(b"1")
    target = tmp_path / "archive" / "0" / "job-1"

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for _ in range(2):
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fails)
            with pytest.raises(OSError, match="Input/output error") as raised:
                move_files([(tmp_path / "job-1", target)])

        assert not isinstance(raised.value, NotYetDurable)
        assert (tmp_path / "job-1").exists()

    move_files([(tmp_path / "job-1", target)])

    assert target.read_bytes() == b"1"


def test_a_failing_move_keeps_the_moves_before_it_and_drops_those_after(tmp_path: Path) -> None:
    for name in ("a", "c", "b-moved"):
        (tmp_path / name).write_bytes(b"1")
    # a folder cannot replace a file
    (tmp_path / "b").mkdir()

    with pytest.raises(NotADirectoryError):
        move_files([(tmp_path / name, tmp_path / f"{name}-moved") for name in "abc"])

    assert sorted(os.listdir(tmp_path)) == ["a-moved", "b", "b-moved", "c"]


def test_what_is_not_there_is_told_and_stops_no_other_move(tmp_path: Path) -> None:
    for name in "ac":
        (tmp_path / name).write_bytes(b"1")

    missing = move_files([(tmp_path / name, tmp_path / f"{name}-moved") for name in "abc"])

    assert missing == [tmp_path / "b"]
    assert sorted(contents(tmp_path)) == ["a-moved", "c-moved"]


def test_a_file_can_have_another_owner_and_the_times_of_its_model(tmp_path: Path) -> None:
    owner = (os.geteuid(), os.getegid()) if os.geteuid() else (12345, 54321)
    write_files([FileWrite(tmp_path / "a", b"1", 0o640, owner=owner, times=(1400000000.25, 1400000000.5))])

    status = (tmp_path / "a").stat()
    assert (status.st_uid, status.st_gid) == owner
    assert (status.st_atime, status.st_mtime) == (1400000000.25, 1400000000.5)
    assert stat.S_IMODE(status.st_mode) == 0o640
