"""One writer for a piece of state: what waits shares a write, and memory never knows more than the disk."""

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from common.errors import Conflict, Unavailable
from daemons.wconfd import steps
from daemons.wconfd.steps import StepCounts, StepWriter

pytestmark = pytest.mark.trio

State = tuple[str, ...]


class Disk:
    """Remembers what was written; slow until it is let go on, full on demand."""

    def __init__(self) -> None:
        self.written: list[State] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.failure: Exception | None = None

    def write(self, state: State, answers: Sequence[object]) -> None:
        assert self.may_go.wait(20)
        if self.failure:
            raise self.failure
        self.written.append(state)


class Callers:
    """Changes that are under way at once; what became of each, in the order in which they were answered."""

    def __init__(self, writer: StepWriter[State], nursery: trio.Nursery) -> None:
        self._writer = writer
        self._nursery = nursery
        self.answers: dict[str, int | Exception] = {}

    async def begin(self, *names: str) -> None:
        """Begin a change for each, in this order; back when all are waiting."""
        for name in names:
            self._nursery.start_soon(self._change, name)
            await trio.testing.wait_all_tasks_blocked()

    async def _change(self, name: str) -> None:
        try:
            self.answers[name] = await self._writer.change(step(name))
        except Exception as error:
            self.answers[name] = error


def step(name: str) -> Any:
    """Appends the name and answers how many there are; one called `bad...` is refused, `bug...` is a bug."""

    def append(state: State) -> tuple[State, int]:
        if name.startswith("bad"):
            raise Conflict(f"{name} after {len(state)}")
        if name.startswith("bug"):
            raise ZeroDivisionError
        if name.startswith("same"):
            return state, len(state)
        return (*state, name), len(state) + 1

    return append


async def start(disk: Disk, nursery: trio.Nursery, published: Any = lambda _: None) -> StepWriter[State]:
    writer = StepWriter[State]((), disk.write, published)
    await nursery.start(writer.run)
    return writer


async def test_fifty_changes_at_once_take_at_most_two_writes(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)

    async with trio.open_nursery() as crowd:
        for number in range(50):
            crowd.start_soon(writer.change, step(str(number)))

    assert len(disk.written) <= 2
    assert sorted(map(int, disk.written[-1])) == list(range(50))
    assert writer.counts == StepCounts(steps=50, writes=len(disk.written), failures=0)


async def test_what_comes_during_a_write_shares_the_next_and_is_applied_in_order(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        callers = Callers(writer, inner)
        disk.may_go.clear()
        await callers.begin("a")
        await callers.begin("b", "c", "d")
        disk.may_go.set()

    assert disk.written == [("a",), ("a", "b", "c", "d")]
    assert callers.answers == {"a": 1, "b": 2, "c": 3, "d": 4}


async def one_turn_apart(writer: StepWriter[State], *names: str) -> None:
    async with trio.open_nursery() as inner:
        for name in names:
            inner.start_soon(writer.change, step(name))
            await trio.lowlevel.checkpoint()


async def test_who_came_together_before_shares_a_write_with_what_comes_a_turn_of_the_loop_later(
    nursery: trio.Nursery,
) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        disk.may_go.clear()
        await Callers(writer, inner).begin("a", "b")
        disk.may_go.set()

    await one_turn_apart(writer, "c", "d")

    assert disk.written == [("a",), ("a", "b"), ("a", "b", "c", "d")]


async def test_who_is_alone_is_written_at_once(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        disk.may_go.clear()
        await Callers(writer, inner).begin("a", "b")
        disk.may_go.set()
    for _ in range(4):
        await writer.change(step("alone"))

    await one_turn_apart(writer, "c", "d")

    assert disk.written[-2:] == [("a", "b", *["alone"] * 4, "c"), ("a", "b", *["alone"] * 4, "c", "d")]


async def test_a_refused_step_and_a_bug_hit_their_own_callers_alone(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        callers = Callers(writer, inner)
        disk.may_go.clear()
        await callers.begin("a")
        await callers.begin("b", "bad", "bug", "c")
        disk.may_go.set()

    assert disk.written == [("a",), ("a", "b", "c")]
    assert isinstance(callers.answers.pop("bug"), ZeroDivisionError)
    assert str(callers.answers.pop("bad")) == "bad after 2"
    assert callers.answers == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("failure", [Unavailable("full"), OSError(28, "full"), ValueError("a bug of the encoder")])
async def test_a_failed_write_changes_nothing_and_concerns_exactly_those_who_wait_for_it(
    failure: Exception, nursery: trio.Nursery
) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        callers = Callers(writer, inner)
        disk.may_go.clear()
        disk.failure = failure
        await callers.begin("a", "bad")
        await callers.begin("b")
        # "a" is in the write that fails; "bad" and "b" are in the next one, which fails as well
        disk.may_go.set()

    assert callers.answers.pop("bad").__class__ is Conflict
    assert callers.answers == {"a": failure, "b": failure}
    assert (writer.state, disk.written) == ((), [])
    disk.failure = None
    assert await writer.change(step("c")) == 1
    assert (writer.state, disk.written) == (("c",), [("c",)])
    assert writer.counts.failures == 2


async def test_a_change_is_not_visible_before_it_is_durable_and_published_before_it_is_answered(
    nursery: trio.Nursery,
) -> None:
    disk, seen = Disk(), []
    writer: StepWriter[State]

    def published(answers: Sequence[int]) -> None:
        seen.append((writer.state, list(answers), dict(callers.answers)))

    writer = await start(disk, nursery, published)
    async with trio.open_nursery() as inner:
        callers = Callers(writer, inner)
        disk.may_go.clear()
        await callers.begin("a")
        assert (writer.state, seen) == ((), [])
        disk.may_go.set()

    assert seen == [(("a",), [1], {})]


async def test_a_change_of_nothing_writes_nothing_and_a_flush_writes_all_the_same(nursery: trio.Nursery) -> None:
    disk = Disk()
    published: list[Sequence[int]] = []
    writer = await start(disk, nursery, published.append)

    assert await writer.change(step("same")) == 0
    assert (disk.written, published) == ([], [])

    await writer.flush()
    assert (disk.written, published) == ([()], [])


async def test_settled_waits_for_changes_begun_before(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    async with trio.open_nursery() as inner:
        callers = Callers(writer, inner)
        disk.may_go.clear()
        await callers.begin("a", "b")
        disk.may_go.set()

        assert await writer.settled() == ("a", "b")

    assert await writer.settled() == ("a", "b")
    assert len(disk.written) == 2


async def test_a_caller_that_is_cancelled_does_not_take_its_change_back(nursery: trio.Nursery) -> None:
    disk = Disk()
    writer = await start(disk, nursery)
    disk.may_go.clear()

    async with trio.open_nursery() as inner:
        await Callers(writer, inner).begin("a")
        inner.cancel_scope.cancel()
    disk.may_go.set()

    assert await writer.settled() == ("a",)


async def test_changes_begun_before_the_end_are_made_and_later_ones_refused() -> None:
    disk = Disk()
    async with trio.open_nursery() as callers_nursery, trio.open_nursery() as nursery:
        writer = await start(disk, nursery)
        callers = Callers(writer, callers_nursery)
        disk.may_go.clear()
        await callers.begin("a", "b")
        nursery.cancel_scope.cancel()
        disk.may_go.set()

    assert disk.written == [("a",), ("a", "b")]
    assert callers.answers == {"a": 1, "b": 2}
    with pytest.raises(Unavailable, match="shutting down"):
        await writer.change(step("c"))


# a lone caller's quick writes


class QuickDisk(Disk):
    """Also has the short write; `quick` has what was written by it."""

    def __init__(self) -> None:
        super().__init__()
        self.quick: list[State] = []
        # those of them that may lag
        self.lagging: list[State] = []
        self.pause_s = 0.0
        self.is_refused = False

    def write_quickly(self, state: State, answers: Sequence[object], may_lag: bool) -> bool:
        time.sleep(self.pause_s)
        if self.is_refused:
            return False
        self.quick.append(state)
        if may_lag:
            self.lagging.append(state)
        return True


@pytest.fixture
async def quick(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> tuple[QuickDisk, StepWriter[State]]:
    """A writer whose disk has shown that it is fast."""
    monkeypatch.setattr(steps, "QUICK_S", 1.0)
    monkeypatch.setattr(steps, "ALONE_S", 600.0)
    disk = QuickDisk()
    writer = StepWriter[State]((), disk.write, lambda _: None, disk.write_quickly)
    await nursery.start(writer.run)
    while not disk.quick:
        await writer.change(step("warm"), "me")
    return disk, writer


async def test_a_lone_caller_of_a_fast_disk_is_served_without_the_thread(
    quick: tuple[QuickDisk, StepWriter[State]],
) -> None:
    disk, writer = quick
    written = len(disk.written)

    assert await writer.change(step("a"), "me") == len(disk.quick[-1])
    with pytest.raises(Conflict):
        await writer.change(step("bad"), "me")
    await writer.change(step("same"), "me")
    await writer.change(step("b"), "me")

    assert writer.state[-2:] == ("a", "b")
    assert disk.quick[-1] == writer.state
    assert len(disk.written) == written


@pytest.mark.parametrize("other", ["you", None])
async def test_who_is_not_alone_or_not_known_has_the_thread(
    quick: tuple[QuickDisk, StepWriter[State]], other: str | None
) -> None:
    disk, writer = quick
    made = len(disk.quick)

    await writer.change(step("a"), other)
    await writer.change(step("b"), "me")

    assert len(disk.quick) == made
    assert disk.written[-2:] == [writer.state[:-1], writer.state]


async def test_after_a_stall_the_thread_writes_again_until_the_disk_is_fast(
    quick: tuple[QuickDisk, StepWriter[State]], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, writer = quick
    disk.pause_s = 0.1
    await writer.change(step("stalled"), "me")
    monkeypatch.setattr(steps, "QUICK_S", 0.02)
    made = len(disk.quick)

    await writer.change(step("a"), "me")
    assert len(disk.quick) == made
    assert disk.written[-1] == writer.state


async def test_what_the_quick_write_cannot_do_the_thread_does(quick: tuple[QuickDisk, StepWriter[State]]) -> None:
    disk, writer = quick
    disk.is_refused = True

    assert await writer.change(step("a"), "me") == len(writer.state)

    assert writer.state[-1] == "a"
    assert disk.written[-1] == writer.state


async def test_what_may_lag_is_written_without_the_thread_in_a_crowd_and_on_a_slow_disk(
    quick: tuple[QuickDisk, StepWriter[State]], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, writer = quick
    await writer.change(step("a"), "you")
    monkeypatch.setattr(steps, "QUICK_S", 0.0)
    written = len(disk.written)

    await writer.change(step("b"), "me", may_lag=True)

    assert disk.lagging == [writer.state]
    assert len(disk.written) == written
    # it says nothing of how fast the disk is
    await writer.change(step("c"), "me")
    assert disk.written[-1] == writer.state


async def test_what_may_lag_follows_what_is_being_written_and_shares_the_write_of_what_is_before_it(
    quick: tuple[QuickDisk, StepWriter[State]],
) -> None:
    disk, writer = quick
    order: list[str] = []

    async def change(name: str, *, may_lag: bool) -> None:
        await writer.change(step(name), name, may_lag=may_lag)
        order.append(name)

    disk.may_go.clear()
    async with trio.open_nursery() as inner:
        for name, may_lag in (("a", False), ("b", True), ("c", True), ("d", False), ("e", True)):
            inner.start_soon(partial(change, name, may_lag=may_lag))
            await trio.testing.wait_all_tasks_blocked()
        assert order == []
        disk.may_go.set()

    assert writer.state[-5:] == ("a", "b", "c", "d", "e")
    assert disk.lagging == [writer.state[:-3], writer.state[:-2]]
    assert disk.written[-2:] == [writer.state[:-4], writer.state]
    # what was written together is told in one turn of the loop, in any order
    assert (set(order[:3]), set(order[3:])) == ({"a", "b", "c"}, {"d", "e"})
