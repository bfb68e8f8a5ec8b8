"""A group whose folder cannot be synced: no error is reported, nothing is written twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from common.durable import groupcommit
from common.durable.atomicfile import FileWrite, write_files
from common.durable.folders import NotYetDurable
from common.durable.groupcommit import GroupCommit
from tests.support.fakes.failing import FailingFsync, count_renames

pytestmark = pytest.mark.trio


async def test_callers_wait_until_the_folder_is_synced_and_the_files_are_written_once(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groupcommit, "RETRY_S", 0)
    failing = FailingFsync(is_folder=True, failures_left=3).install(monkeypatch)
    renames = count_renames(monkeypatch)
    commit = GroupCommit()
    await nursery.start(commit.run)

    async with trio.open_nursery() as callers:
        for name in "ab":
            callers.start_soon(commit.commit, [FileWrite(tmp_path / name, b"1")])

    assert failing.failures_left == 0
    assert sorted(renames) == ["a", "b"]
    assert (commit.statistics().failures, commit.statistics().retries) == (0, 0)


async def test_a_writer_that_is_ended_meanwhile_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FailingFsync(is_folder=True, failures_left=1_000_000).install(monkeypatch)
    has_begun = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def write(writes: Sequence[FileWrite]) -> None:
        try:
            write_files(writes)
        finally:
            token.run_sync_soon(has_begun.set)

    commit = GroupCommit(write)
    caught: list[BaseException] = []

    async def call() -> None:
        with trio.CancelScope(shield=True):
            try:
                await commit.commit([FileWrite(tmp_path / "a", b"1")])
            except NotYetDurable as error:
                caught.append(error)

    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(commit.run)
        callers.start_soon(call)
        await has_begun.wait()
        nursery.cancel_scope.cancel()

    assert len(caught) == 1
    assert (tmp_path / "a").read_bytes() == b"1"
