"""The system starts no thread: who begins says so in a line, who serves waits (DESIGN section 11)."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from common.durable import groupcommit
from common.durable.atomicfile import FileWrite
from common.durable.groupcommit import GroupCommit
from common.errors import Unavailable
from common.system import shortages
from common.system.inthread import in_thread
from common.system.shortages import NoThread
from tests.support.cluster import Cluster

WORDS = "no thread can be started, as the limit of processes (ulimit -u, TasksMax) or of memory is reached"


def no_room_for_stacks() -> None:
    """No thread gets a stack so large; the first one has its own already."""
    resource.setrlimit(resource.RLIMIT_STACK, (2**46, resource.RLIM_INFINITY))


def run_without_threads(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", *command],
        preexec_fn=no_room_for_stacks,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Lets the system refuse so many threads; all that asked for one."""
    monkeypatch.setattr(shortages, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(groupcommit, "RETRY_S", 0.001)
    real = trio.to_thread.run_sync
    asked: list[str] = []

    def refuse(count: int) -> list[str]:
        async def run_sync(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
            asked.append(getattr(work, "__name__", "?"))
            if len(asked) <= count:
                raise RuntimeError("can't start new thread")
            return await real(work, *args, **options)

        monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
        return asked

    return refuse


@pytest.mark.parametrize("daemon", ["luxid", "wconfd"])
def test_a_daemon_that_gets_no_thread_says_so_in_one_line(tmp_path: Path, daemon: str) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()

    ended = run_without_threads("-m", f"daemons.{daemon}.main", "--root", str(cluster.root))

    assert (ended.returncode, ended.stderr.splitlines()) == (1, [f"{daemon}: error: {WORDS}"])


def test_a_tool_that_gets_no_thread_says_so_in_one_line() -> None:
    program = "from cli.job.main import main; main()"
    # a feed from elsewhere is read in a thread, which is started before it connects
    ended = run_without_threads("-c", program, "--remote", "http://127.0.0.1:9", "wait", "5")

    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [f"error: {WORDS}; try again, or raise the limit"]


@pytest.mark.trio
async def test_work_waits_for_a_thread_and_says_so(
    refused: Callable[[int], list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    asked = refused(3)

    assert await in_thread(sum, [1, 2]) == 3

    assert asked == ["sum"] * 4
    assert [record.getMessage().split()[0] for record in caplog.records] == ["thread.not_started"] * 3


@pytest.mark.trio
async def test_another_error_of_the_work_is_its_own(refused: Callable[[int], list[str]]) -> None:
    def fail() -> None:
        raise RuntimeError("another one")

    asked = refused(0)

    with pytest.raises(RuntimeError, match="another one"):
        await in_thread(fail)
    assert asked == ["fail"]


@pytest.mark.trio
async def test_a_commit_waits_for_a_thread_and_is_made_once(
    tmp_path: Path, refused: Callable[[int], list[str]]
) -> None:
    async with trio.open_nursery() as nursery:
        commits = GroupCommit()
        await nursery.start(commits.run)
        refused(3)

        await commits.commit([FileWrite(tmp_path / "file", b"content")])

        assert (tmp_path / "file").read_bytes() == b"content"
        assert (commits.statistics().groups, commits.statistics().failures) == (1, 0)
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_daemon_that_ends_does_not_wait_for_a_thread(
    tmp_path: Path, refused: Callable[[int], list[str]]
) -> None:
    errors: list[OSError] = []
    commits = GroupCommit()
    asked = refused(1_000_000)

    async def commit(name: str) -> None:
        try:
            await commits.commit([FileWrite(tmp_path / name, b"content")])
        except OSError as error:
            errors.append(error)

    async with trio.open_nursery() as callers, trio.open_nursery() as nursery:
        await nursery.start(commits.run)
        callers.start_soon(commit, "first")
        while not asked:
            await trio.lowlevel.checkpoint()
        callers.start_soon(commit, "second")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert [type(error) for error in errors] == [NoThread] * 2
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Unavailable):
        await commits.commit([])
