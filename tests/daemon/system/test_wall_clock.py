"""The wall clock's alarm (everyday.md j, "clock")."""

import errno
import os
import time

import pytest
import trio
import trio.testing

from common.system import clocks
from common.system.clocks import WallClock
from tests.support.wait import PATIENCE_S

pytestmark = pytest.mark.trio


async def test_it_rings_at_the_instant_and_not_before() -> None:
    clock = WallClock()
    at = time.time() + 0.05
    clock.wake_at(at)

    with trio.fail_after(PATIENCE_S):
        await clock.woken()

    assert clock.now() >= at
    clock.close()


async def test_an_instant_that_has_passed_is_now_and_rings_once() -> None:
    clock = WallClock()
    clock.wake_at(5.5)
    with trio.fail_after(PATIENCE_S):
        await clock.woken()

    with trio.move_on_after(0.05) as scope:
        await clock.woken()

    assert scope.cancelled_caught
    clock.close()


async def test_it_can_be_set_to_an_earlier_instant_while_somebody_waits() -> None:
    clock = WallClock()
    clock.wake_at(time.time() + 3600)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.woken)
            await trio.testing.wait_all_tasks_blocked()
            clock.wake_at(time.time() + 0.02)
    clock.close()


async def test_somebody_who_sets_the_clock_makes_it_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel says then; nobody may set this machine's clock."""
    clock = WallClock()
    clock.wake_at(time.time() - 1)

    def read(fd: int, count: int) -> bytes:
        os.read(fd, count)
        raise OSError(errno.ECANCELED, "the clock was set")

    monkeypatch.setattr(clocks, "os", Os(read))

    with trio.fail_after(PATIENCE_S):
        await clock.woken()
    monkeypatch.undo()
    clock.close()


async def test_the_alarm_is_set_again_if_the_clock_was_set_just_before(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    set_timer = clocks.set_timer

    def refuse_once(fd: int, at_ns: int, flags: int) -> None:
        calls.append(at_ns)
        if len(calls) == 1:
            raise OSError(errno.ECANCELED, "the clock was set")
        set_timer(fd, at_ns, flags)

    monkeypatch.setattr(clocks, "set_timer", refuse_once)
    clock = WallClock()

    clock.wake_at(5.0)

    with trio.fail_after(PATIENCE_S):
        await clock.woken()
    assert calls[:2] == [5_000_000_000, 5_000_000_000]
    clock.close()


async def test_a_closed_clock_has_no_alarm_to_set() -> None:
    clock = WallClock()
    clock.close()

    clock.wake_at(5.0)
    clock.close()


class Os:
    """The module with another `read`."""

    def __init__(self, read: object) -> None:
        self.read = read
