"""Long work of the event loop lets threads go on, and costs no time while there are none."""

import threading

import pytest
import trio
import trio.testing

from common.system import inthread
from common.system.inthread import give_way, in_thread, try_in_thread
from common.system.shortages import NoThread


@pytest.fixture(autouse=True)
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inthread, "_PAUSE_S", 3600.0)


async def waits() -> bool:
    with trio.move_on_after(0.05) as scope:
        await give_way()
    return scope.cancelled_caught


async def wait_in_thread(event: threading.Event) -> None:
    await in_thread(event.wait)


@pytest.mark.trio
async def test_it_waits_for_a_moment_only_while_a_thread_is_at_work() -> None:
    is_over = threading.Event()
    assert not await waits()
    async with trio.open_nursery() as nursery:
        try:
            nursery.start_soon(wait_in_thread, is_over)
            await trio.testing.wait_all_tasks_blocked()
            assert await waits()
        finally:
            is_over.set()

    assert not await waits()


@pytest.mark.trio
async def test_work_that_fails_or_gets_no_thread_is_not_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("full")

    async def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.raises(OSError, match="full"):
        await in_thread(fail)
    monkeypatch.setattr(trio.to_thread, "run_sync", refuse)
    with pytest.raises(NoThread):
        await try_in_thread(fail)

    assert not await waits()
