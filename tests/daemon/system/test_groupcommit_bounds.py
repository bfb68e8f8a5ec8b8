"""A group of writes has a bound, so that no caller waits for many files of others (DESIGN section 6)."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from common.durable import groupcommit
from common.durable.atomicfile import FileWrite
from common.durable.groupcommit import GroupCommit
from tests.support.wait import PATIENCE_S, wait_until_async

pytestmark = pytest.mark.trio


class HeldDisk:
    """Remembers each group, and takes the first one only when it is let go on."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.may_go = threading.Event()

    def __call__(self, writes: Sequence[FileWrite]) -> None:
        self.groups.append([write.path.name for write in writes])
        assert self.may_go.wait(PATIENCE_S)


async def groups_of(commits: Sequence[Sequence[FileWrite]], nursery: trio.Nursery) -> list[list[str]]:
    """The groups in which these commits, which come while another one is written, are written."""
    disk = HeldDisk()
    commit = GroupCommit(disk)
    await nursery.start(commit.run)
    async with trio.open_nursery() as callers:
        callers.start_soon(commit.commit, [FileWrite(Path("first"), b"")])
        await wait_until_async(lambda: disk.groups, what="the first write")
        for number, writes in enumerate(commits, 1):
            callers.start_soon(commit.commit, writes)
            await wait_until_async(partial(_waits, commit, number), what="it waits")
        disk.may_go.set()
    return disk.groups[1:]


def file(number: int, size: int = 0) -> FileWrite:
    return FileWrite(Path(str(number)), bytes(size))


async def test_a_crowd_is_written_in_groups_of_bounded_number_first_come_first_served(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groupcommit, "MOST_FILES", 10)

    groups = await groups_of([[file(number)] for number in range(35)], nursery)

    assert [len(group) for group in groups] == [10, 10, 10, 5]
    assert [name for group in groups for name in group] == [str(number) for number in range(35)]


async def test_a_group_has_a_bound_in_bytes(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupcommit, "MOST_BYTES", 1000)

    groups = await groups_of([[file(1, 600)], [file(2, 400)], [file(3, 1)], [file(4, 5000)], [file(5)]], nursery)

    assert groups == [["1", "2"], ["3"], ["4"], ["5"]]


async def test_a_commit_of_more_files_than_a_group_may_have_is_written_alone_and_whole(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groupcommit, "MOST_FILES", 3)

    groups = await groups_of([[file(1)], [file(number) for number in range(2, 9)], [file(9)]], nursery)

    assert groups == [["1"], ["2", "3", "4", "5", "6", "7", "8"], ["9"]]


async def test_a_writer_that_ends_writes_all_groups_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupcommit, "MOST_FILES", 2)
    disk = HeldDisk()
    commit = GroupCommit(disk)
    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(commit.run)
        callers.start_soon(commit.commit, [file(0)])
        await wait_until_async(lambda: disk.groups, what="the first write")
        for number in range(1, 6):
            callers.start_soon(commit.commit, [file(number)])
        await wait_until_async(lambda: commit.statistics().waiting == 5, what="five wait")
        nursery.cancel_scope.cancel()
        disk.may_go.set()

    assert [len(group) for group in disk.groups] == [1, 2, 2, 1]


def _waits(commit: GroupCommit, count: int) -> bool:
    return commit.statistics().waiting == count
