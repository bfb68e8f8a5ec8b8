"""A watch tells everything that happens in its folder, and says so when it cannot."""

import contextlib
import errno
import os
import resource
from pathlib import Path
from typing import Final

import inotify_simple
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from common.durable.atomicfile import write_file
from common.system.watch import LOOK_S, EventKind, FolderEvent, FolderWatch, unwatched

pytestmark = pytest.mark.trio
# the whole folder is to be read
LOOK: Final = [FolderEvent("", EventKind.UNWATCHED)]


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


async def test_a_folder_that_is_missing_is_looked_at_until_it_is_there(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"

    async with FolderWatch(folder, kinds=EventKind.CREATE) as watch:
        assert [await watch.events(), await watch.events()] == [LOOK, LOOK]
        assert trio.current_time() == 2 * LOOK_S
        assert unwatched() == (f"'{folder}': no such file or directory '{folder}'; check the path and its owner",)
        folder.mkdir()
        # what was made until then came without an event
        assert await watch.events() == LOOK
        assert unwatched() == ()
        (folder / "a").touch()
        assert await watch.events() == [FolderEvent("a", EventKind.CREATE)]

    assert [record.message for record in caplog.records] == ["folder.not_watched"], "once, however long it lasts"


async def test_a_folder_in_the_place_of_one_that_is_gone_is_watched_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    async with FolderWatch(folder, kinds=EventKind.CREATE) as watch:
        folder.rmdir()
        assert await watch.events() == [FolderEvent("", EventKind.FOLDER_GONE)]
        folder.mkdir()
        assert await watch.events() == LOOK
        (folder / "a").touch()

        assert await watch.events() == [FolderEvent("a", EventKind.CREATE)]


def instances() -> int:
    """The inotify instances of this process."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        # the descriptor of this listing is closed by now
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:inotify"
    return found


async def test_all_watches_of_a_process_have_one_instance_which_ends_with_the_last(tmp_path: Path) -> None:
    before = instances()
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()

    watches = [FolderWatch(folder, kinds=EventKind.CREATE) for folder in folders]
    assert instances() == before + 1
    (folders[1] / "file").touch()
    assert await watches[1].events() == [FolderEvent("file", EventKind.CREATE)]
    assert [watches[0].take(), watches[2].take()] == [[], []]
    for watch in watches:
        watch.close()

    assert instances() == before


async def test_two_watches_of_a_folder_get_what_each_has_asked_for(tmp_path: Path) -> None:
    async with FolderWatch(tmp_path, kinds=EventKind.DELETE) as ends:
        async with FolderWatch(tmp_path, kinds=EventKind.CREATE) as begins:
            (tmp_path / "a").touch()
            (tmp_path / "a").unlink()

            assert await begins.events() == [FolderEvent("a", EventKind.CREATE)]
            assert await ends.events() == [FolderEvent("a", EventKind.DELETE)]
        (tmp_path / "b").touch()
        (tmp_path / "b").unlink()

        assert await ends.events() == [FolderEvent("b", EventKind.DELETE)]


async def test_a_slow_reader_is_told_that_it_lost_events(tmp_path: Path) -> None:
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))

    async with (
        FolderWatch(tmp_path, kinds=EventKind.CLOSE_WRITE) as slow,
        FolderWatch(tmp_path.parent, kinds=EventKind.CREATE) as other,
    ):
        for n in range(3 * 16384):
            os.close(os.open(names[n % 2], os.O_WRONLY))
            if n % 1000 == 0:
                # it reads the events of both
                other.take()
        events = slow.take()

    assert len(events) <= 16384 + 1
    assert events[-1] == FolderEvent("", EventKind.OVERFLOW)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "raise fs.inotify.max_user_instances (now "),
        (errno.ENOSPC, "raise fs.inotify.max_user_watches (now "),
        (errno.ENOMEM, "try again when there is memory"),
    ],
)
async def test_a_limit_of_the_kernel_is_named_and_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, number: int, words: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as limited:
        limited.setattr(inotify_simple, "INotify", refuse)
        watch = FolderWatch(tmp_path, kinds=EventKind.CREATE)
        assert words in watch.failure
        assert "ulimit" not in watch.failure
        assert await watch.events() == LOOK

    assert await watch.events() == LOOK
    assert watch.failure == ""
    (tmp_path / "a").touch()
    assert await watch.events() == [FolderEvent("a", EventKind.CREATE)]
    watch.close()


async def test_a_process_without_descriptors_is_told_so(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        watch = FolderWatch(tmp_path, kinds=EventKind.CREATE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    watch.close()

    assert "(ulimit -n)" in watch.failure


async def test_a_watch_that_is_closed_while_its_folder_cannot_be_watched_wakes_its_waiter(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path / "nowhere", kinds=EventKind.CREATE)

    async def expect_closed() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await watch.events()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_closed)
        await trio.testing.wait_all_tasks_blocked()
        watch.close()

    assert unwatched() == ()


async def test_a_forked_child_takes_no_events_of_its_parent(tmp_path: Path) -> None:
    async with FolderWatch(tmp_path, kinds=EventKind.CREATE) as watch:
        (tmp_path / "a").touch()
        if not (pid := os.fork()):
            FolderWatch(tmp_path, kinds=EventKind.CREATE).take()
            os._exit(0)
        await trio.to_thread.run_sync(os.waitpid, pid, 0)

        assert await watch.events() == [FolderEvent("a", EventKind.CREATE)]
