"""Livelock files by themselves: names, modes, what counts as dead; processes are in tests/daemon."""

import errno
import fcntl
import os
import re
import stat
import time
from pathlib import Path

import pytest

from common.system.livelock import Life, Livelock, is_alive, probe


def test_a_livelock_is_an_empty_private_file_named_after_prefix_and_second(tmp_path: Path) -> None:
    livelock = Livelock.create(tmp_path, "job_000042")

    assert re.fullmatch(r"job_000042_\d+", Path(livelock.path).name)
    assert os.listdir(tmp_path) == [Path(livelock.path).name]
    status = os.stat(livelock.path)
    assert (stat.S_IMODE(status.st_mode), status.st_size) == (0o600, 0)
    assert not os.get_inheritable(livelock.fd)
    livelock.remove()


def test_a_name_that_exists_is_not_used_again_even_if_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1700000000)
    (tmp_path / "pid7_1700000001").touch()

    livelocks = [Livelock.create(tmp_path, "pid7") for _ in range(3)]

    assert [Path(livelock.path).name for livelock in livelocks] == [
        "pid7_1700000000",
        "pid7_1700000002",
        "pid7_1700000003",
    ]
    for livelock in livelocks:
        livelock.remove()


def test_a_removed_name_does_not_come_back(tmp_path: Path) -> None:
    # a death that is told late must not count for the next process of the job
    names = []
    for _ in range(3):
        livelock = Livelock.create(tmp_path, "job_000001")
        names.append(livelock.path)
        livelock.remove()

    assert len(set(names)) == 3


def test_both_locks_are_taken_before_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    for module, name in ((fcntl, "lockf"), (fcntl, "flock"), (os, "rename")):
        real = getattr(module, name)

        def step(first: object, *args: object, name: str = name, real: object = real) -> object:
            # the flock of the folder keeps other creators out, it is not meant here
            if name != "flock" or not stat.S_ISDIR(os.fstat(int(str(first))).st_mode):
                steps.append(name)
            return real(first, *args)  # type: ignore[operator]

        monkeypatch.setattr(module, name, step)

    livelock = Livelock.create(tmp_path, "pid7")

    assert steps == ["lockf", "flock", "rename"]
    livelock.remove()


def test_removing_deletes_the_file_and_may_be_repeated(tmp_path: Path) -> None:
    livelock = Livelock.create(tmp_path, "pid7")

    livelock.remove()
    livelock.remove()

    assert os.listdir(tmp_path) == []
    assert not is_alive(livelock.path)


def test_ones_own_livelock_is_alive_even_if_somebody_deleted_the_file(tmp_path: Path) -> None:
    livelock = Livelock.create(tmp_path, "pid7")
    os.unlink(livelock.path)

    assert is_alive(livelock.path)

    livelock.remove()
    assert not is_alive(livelock.path)


def test_creating_in_a_missing_folder_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Livelock.create(tmp_path / "nowhere", "pid7")


def test_a_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    descriptors = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(fcntl, "lockf", refuse)

    with pytest.raises(OSError, match="No locks"):
        Livelock.create(tmp_path, "pid7")

    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize(
    "path", ["", "{}/nowhere", "{}/file/below", "{}", "{}/fifo", "{}/link", "a\0b", "/" + "x" * 300]
)
def test_what_is_no_regular_file_is_dead(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    assert not is_alive(path.format(tmp_path))


def test_a_file_that_nobody_locks_is_dead(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert not is_alive(str(tmp_path / "file"))


def test_a_probe_that_fails_says_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)

    assert is_alive(str(tmp_path / "file"))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO])
def test_a_probe_that_cannot_be_made_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "file").touch()

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fail)
        assert probe(str(tmp_path / "file")) is Life.UNKNOWN
        assert is_alive(str(tmp_path / "file"))

    assert probe(str(tmp_path / "file")) is Life.DEAD


def test_a_probe_leaks_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    descriptors = len(os.listdir("/proc/self/fd"))

    assert not is_alive(str(tmp_path / "file"))

    assert len(os.listdir("/proc/self/fd")) == descriptors
