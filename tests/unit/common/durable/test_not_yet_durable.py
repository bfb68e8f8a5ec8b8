"""A folder that cannot be synced after the rename: the change stands, and only that fsync is repeated."""

import errno
import os
from pathlib import Path

import pytest

from common.durable import durably as durably_module
from common.durable.atomicfile import FileWrite, move_files, remove_file, write_file, write_files
from common.durable.durably import durably
from common.durable.folders import NotYetDurable
from tests.support.fakes.failing import FailingFsync, count_renames


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durably_module, "RETRY_S", 0)


def test_a_write_whose_folder_cannot_be_synced_is_made_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=2).install(monkeypatch)

    with pytest.raises(NotYetDurable) as caught:
        write_files([FileWrite(tmp_path / name, b"new") for name in "ab"])

    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"new", b"new"]
    assert (caught.value.errno, caught.value.folders) == (errno.EIO, (str(tmp_path),))
    with pytest.raises(NotYetDurable) as again:
        caught.value.repeat()
    again.value.repeat()
    assert failing.calls == ["file", "file", "folder", "folder", "folder"]


def test_only_the_folders_that_are_missing_are_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in "xyz":
        (tmp_path / folder).mkdir()
    failing = FailingFsync(is_folder=True, failures_left=0).install(monkeypatch)
    real = os.open

    def no_y(path: str, flags: int, *rest: int) -> int:
        if path.endswith("/y"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_y)
        with pytest.raises(NotYetDurable) as caught:
            write_files([FileWrite(tmp_path / folder / "a", b"new") for folder in "xyz"])

    assert caught.value.folders == (str(tmp_path / "y"), str(tmp_path / "z"))
    failing.calls.clear()
    caught.value.repeat()
    assert failing.calls == ["folder", "folder"]


@pytest.mark.parametrize("failures", [1, 4])
def test_durably_repeats_the_fsync_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    failing = FailingFsync(is_folder=True, failures_left=failures).install(monkeypatch)
    renames = count_renames(monkeypatch)

    durably(lambda: write_file(tmp_path / "a", b"new"))

    assert failing.calls == ["file"] + ["folder"] * (failures + 1)
    assert renames == ["a"]


def test_durably_passes_on_what_was_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    FailingFsync(is_folder=False, failures_left=1).install(monkeypatch)

    with pytest.raises(OSError, match="Input/output error") as caught:
        durably(lambda: write_file(tmp_path / "a", b"new"))

    assert not isinstance(caught.value, NotYetDurable)
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_removal_that_is_tried_again_is_synced_though_the_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    failing = FailingFsync(is_folder=True, failures_left=1).install(monkeypatch)

    with pytest.raises(NotYetDurable):
        remove_file(tmp_path / "a")
    remove_file(tmp_path / "a")

    assert failing.calls == ["folder", "folder"]


def test_moves_are_done_when_only_a_folder_could_not_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"1")
    # of the folder above the archive, before anything is moved
    FailingFsync(is_folder=True, failures_left=1, spared=1).install(monkeypatch)

    with pytest.raises(NotYetDurable) as caught:
        move_files([(tmp_path / "a", tmp_path / "archive" / "a")])
    caught.value.repeat()

    assert (tmp_path / "archive" / "a").read_bytes() == b"1"
