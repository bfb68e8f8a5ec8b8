"""A disk that fails after `locks.data` is in its place: the change stands, and is told as made."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from common.durable import durably as durably_module
from daemons.wconfd.core.locks.encoding import encode
from daemons.wconfd.core.locks.waiting import LockChange, LockState, try_update
from daemons.wconfd.locks.lockfiles import LockFiles, journal_of, read_locks
from tests.support.fakes.durable import durable_locks
from tests.support.fakes.failing import FailingFsync, count_renames
from tests.support.locks import owner, requests

A = owner("job/1")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durably_module, "RETRY_S", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "locks.data"
    path.write_bytes(b"[[],[]]")
    return path


def taken(state: LockState, text: str) -> LockChange:
    return try_update(state, A, requests(text))


def fail_renames_of(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def rename(old: Any, new: Any) -> None:
        if new == journal:
            raise OSError(errno.EIO, "Input/output error")
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_grant_that_is_in_its_place_is_not_refused_because_a_folder_is_not_synced(
    path: Path, monkeypatch: pytest.MonkeyPatch, has_journal: bool
) -> None:
    files, state = LockFiles.load(path, max_bypass=2, has_journal=has_journal)
    change = taken(state, "node/n1=exclusive")
    failing = FailingFsync(is_folder=True, failures_left=3).install(monkeypatch)
    renames = count_renames(monkeypatch)

    # without a journal yet it is written into `locks.data` itself
    files.write(state, change.state, [(A, change)])

    assert failing.failures_left == 0
    assert renames.count("locks.data") == 1
    assert durable_locks(path) == encode(change.state)


def test_a_journal_that_finds_no_place_does_not_take_the_change_back_and_is_made_later(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, state = LockFiles.load(path, max_bypass=2, has_journal=True)
    files.make_whole(state)
    first = taken(state, "node/n1=exclusive")
    files.write(state, first.state, [(A, first)])

    with monkeypatch.context() as broken:
        fail_renames_of(journal_of(path), broken)
        files.make_whole(first.state)
        assert not files.is_whole
        assert durable_locks(path) == encode(first.state)
        second = taken(first.state, "node/n2=exclusive")
        files.write(first.state, second.state, [(A, second)])
        assert durable_locks(path) == encode(second.state)

    third = taken(second.state, "node/n3=exclusive")
    files.write(second.state, third.state, [(A, third)])
    assert durable_locks(path) == encode(third.state)
    assert files.is_whole
    found = read_locks(path)
    assert found.journal is not None
    assert found.journal.is_current
