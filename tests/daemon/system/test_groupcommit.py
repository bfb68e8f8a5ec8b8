"""Callers who wait at the same time share a write, and each gets its own verdict."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from common.durable.atomicfile import FileWrite, write_files
from common.durable.groupcommit import GroupCommit
from common.errors import Unavailable
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio


class SlowDisk:
    """Writes for real, once it is let go on; records the paths of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.may_go = threading.Event()

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        self.calls.append([write.path.name for write in writes])
        assert self.may_go.wait(PATIENCE_S)
        write_files(writes)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_commit_is_on_disk_when_it_returns(tmp_path: Path, nursery: trio.Nursery) -> None:
    commit = GroupCommit()
    await nursery.start(commit.run)

    await commit.commit([FileWrite(tmp_path / "a", b"1"), FileWrite(tmp_path / "b", b"2")])

    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "b").read_bytes() == b"2"
    assert (commit.statistics().commits, commit.statistics().groups, commit.statistics().files) == (1, 1, 2)


async def test_all_who_wait_during_a_write_share_the_next_one(tmp_path: Path, nursery: trio.Nursery) -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk)
    await nursery.start(commit.run)

    async with trio.open_nursery() as callers:
        callers.start_soon(commit.commit, [FileWrite(tmp_path / "first", b"1")])
        await wait_until_async(lambda: disk.calls, what="the first write")
        for n in range(50):
            callers.start_soon(commit.commit, [FileWrite(tmp_path / str(n), b"1")])
        await wait_until_async(lambda: commit.statistics().waiting == 50, what="50 waiting commits")
        disk.may_go.set()

    assert len(disk.calls) == 2
    assert (commit.statistics().commits, commit.statistics().groups) == (51, 2)
    assert len(names(tmp_path)) == 51


async def test_writes_to_one_path_take_effect_in_the_order_of_the_calls(tmp_path: Path, nursery: trio.Nursery) -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk)
    await nursery.start(commit.run)

    async with trio.open_nursery() as callers:
        for n in range(10):
            callers.start_soon(commit.commit, [FileWrite(tmp_path / "a", b"%d" % n)])
            await trio.testing.wait_all_tasks_blocked()
        disk.may_go.set()

    assert (tmp_path / "a").read_bytes() == b"9"


async def test_in_a_failing_group_only_the_caller_to_blame_gets_the_error(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk)
    await nursery.start(commit.run)
    verdicts: dict[str, str] = {}

    async def call(name: str, path: Path) -> None:
        try:
            await commit.commit([FileWrite(path, b"1")])
        except OSError as error:
            verdicts[name] = type(error).__name__
        else:
            verdicts[name] = "written"

    async with trio.open_nursery() as callers:
        callers.start_soon(call, "first", tmp_path / "first")
        await wait_until_async(lambda: disk.calls, what="the first write")
        callers.start_soon(call, "good", tmp_path / "good")
        callers.start_soon(call, "bad", tmp_path / "nowhere" / "bad")
        callers.start_soon(call, "fine", tmp_path / "fine")
        await wait_until_async(lambda: commit.statistics().waiting == 3, what="3 waiting commits")
        disk.may_go.set()

    assert verdicts == {"first": "written", "good": "written", "bad": "FileNotFoundError", "fine": "written"}
    assert names(tmp_path) == ["fine", "first", "good"]
    assert (commit.statistics().failures, commit.statistics().retries) == (1, 3)


async def test_the_writer_lives_on_after_a_failure(tmp_path: Path, nursery: trio.Nursery) -> None:
    commit = GroupCommit()
    await nursery.start(commit.run)

    with pytest.raises(FileNotFoundError):
        await commit.commit([FileWrite(tmp_path / "nowhere" / "a", b"1")])
    await commit.commit([FileWrite(tmp_path / "a", b"1")])

    assert (tmp_path / "a").read_bytes() == b"1"
    # a lone caller's failure is its own: nothing to try again
    assert commit.statistics().retries == 0


async def test_the_files_of_a_cancelled_caller_are_written_all_the_same(tmp_path: Path, nursery: trio.Nursery) -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk)
    await nursery.start(commit.run)

    async with trio.open_nursery() as callers:
        callers.start_soon(commit.commit, [FileWrite(tmp_path / "first", b"1")])
        await wait_until_async(lambda: disk.calls, what="the first write")
        callers.start_soon(commit.commit, [FileWrite(tmp_path / "second", b"1")])
        await wait_until_async(lambda: commit.statistics().waiting == 1, what="the second commit")
        callers.cancel_scope.cancel()
    disk.may_go.set()

    await wait_until_async((tmp_path / "second").exists, what="the file of the cancelled caller")


async def test_a_cancelled_writer_first_writes_what_was_left_to_it(tmp_path: Path) -> None:
    disk = SlowDisk()
    commit = GroupCommit(disk)
    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(commit.run)
        callers.start_soon(commit.commit, [FileWrite(tmp_path / "first", b"1")])
        await wait_until_async(lambda: disk.calls, what="the first write")
        callers.start_soon(commit.commit, [FileWrite(tmp_path / "second", b"1")])
        await wait_until_async(lambda: commit.statistics().waiting == 1, what="the second commit")

        nursery.cancel_scope.cancel()
        disk.may_go.set()

    assert names(tmp_path) == ["first", "second"]
    with pytest.raises(Unavailable, match="shutting down"):
        await commit.commit([FileWrite(tmp_path / "late", b"1")])
