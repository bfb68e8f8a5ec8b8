"""A watch tells everything that happens in its folder, and says so when it cannot."""

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from common.durable.atomicfile import write_file
from common.system.watch import EventKind, FolderEvent, FolderWatch

pytestmark = pytest.mark.trio


def longest_queue() -> int:
    return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


async def test_a_file_written_atomically_is_one_moved_to_event_with_its_name(tmp_path: Path) -> None:
    async with FolderWatch(tmp_path, kinds=EventKind.MOVED_TO) as watch:
        write_file(tmp_path / "job-7", b"1")

        events = await watch.events()

    assert events == [FolderEvent("job-7", EventKind.MOVED_TO)]


async def test_all_that_happened_comes_in_one_call_in_order(tmp_path: Path) -> None:
    kinds = EventKind.CREATE | EventKind.MODIFY | EventKind.CLOSE_WRITE | EventKind.MOVED_FROM | EventKind.DELETE
    async with FolderWatch(tmp_path, kinds=kinds | EventKind.MOVED_TO) as watch:
        (tmp_path / "a").write_bytes(b"1")
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "b").unlink()

        events = await watch.events()

    assert [(event.name, event.kind.name) for event in events] == [
        ("a", "CREATE"),
        ("a", "MODIFY"),
        ("a", "CLOSE_WRITE"),
        ("a", "MOVED_FROM"),
        ("b", "MOVED_TO"),
        ("b", "DELETE"),
    ]


async def test_a_waiting_task_is_woken_by_the_event(tmp_path: Path) -> None:
    seen: list[FolderEvent] = []

    async with FolderWatch(tmp_path, kinds=EventKind.DELETE) as watch, trio.open_nursery() as nursery:
        (tmp_path / "a").touch()

        async def wait() -> None:
            seen.extend(await watch.events())

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        (tmp_path / "a").unlink()

    assert seen == [FolderEvent("a", EventKind.DELETE)]


async def test_an_overflow_of_the_queue_asks_for_a_rescan(tmp_path: Path) -> None:
    limit = longest_queue()
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
    async with FolderWatch(tmp_path, kinds=EventKind.CLOSE_WRITE) as watch:
        # two names in turn: the kernel merges an event with an equal one just before it
        for n in range(limit + 2):
            os.close(os.open(names[n % 2], os.O_WRONLY))

        events = await watch.events()

    assert events[-1] == FolderEvent("", EventKind.OVERFLOW)
    assert events[-1].needs_rescan
    assert not events[0].needs_rescan


async def test_a_deleted_folder_is_told_and_asks_for_a_rescan(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with FolderWatch(folder, kinds=EventKind.CREATE) as watch:
        folder.rmdir()

        events = await watch.events()

    assert events == [FolderEvent("", EventKind.FOLDER_GONE)]
    assert events[0].needs_rescan


async def test_closing_a_watch_wakes_its_waiter(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, kinds=EventKind.CREATE)

    async def expect_closed() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await watch.events()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_closed)
        await trio.testing.wait_all_tasks_blocked()
        watch.close()
    await expect_closed()
    watch.close()


async def test_a_watch_that_is_closed_when_its_waiter_is_just_woken_ends_like_any_closed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = FolderWatch(tmp_path, kinds=EventKind.CREATE)
    wait_readable = trio.lowlevel.wait_readable

    async def wait_and_lose(fd: int) -> None:
        await wait_readable(fd)
        watch.close()

    monkeypatch.setattr(trio.lowlevel, "wait_readable", wait_and_lose)
    (tmp_path / "a").touch()

    with pytest.raises(trio.ClosedResourceError):
        await watch.events()


async def test_a_missing_folder_cannot_be_watched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FolderWatch(tmp_path / "nowhere", kinds=EventKind.CREATE)
