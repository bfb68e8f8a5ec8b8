"""The ranking of blockers costs luxid a bounded part of its time, however many ask for it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from common.errors import InvalidRequest
from daemons.luxid.core.why.blockers import HeldLock, LockOwner
from daemons.luxid.handlers.explaining import SHARE, Blocking
from protocol.client import Client
from protocol.luxi.why import Blockers, ReadBlockers

TOOK_S = 0.05


class Ranking(Blocking):
    """Takes time, and counts."""

    def __init__(self, clock: MockClock) -> None:
        super().__init__(cast(Any, None), Client(Path("/nowhere"), daemon="wconfd"))
        self.clock = clock
        self.begun_at: list[float] = []

    async def _locks(self) -> tuple[Mapping[LockOwner, Sequence[HeldLock]], str]:
        await trio.sleep(0.01)
        return {}, ""

    def _ranked(self, locks: Mapping[LockOwner, Sequence[HeldLock]], unknown: str) -> Blockers:
        self.begun_at.append(trio.current_time())
        self.clock.jump(TOOK_S)
        return Blockers((), (), len(self.begun_at))


async def ask(ranking: Ranking, answers: list[int]) -> None:
    answers.append((await ranking.read_blockers(ReadBlockers(), cast(Any, None))).waiting)


def run(scenario: Callable[[Ranking], Awaitable[None]]) -> Ranking:
    clock = MockClock(autojump_threshold=0.0)
    ranking = Ranking(clock)
    trio.run(scenario, ranking, clock=clock)
    return ranking


def test_those_who_ask_together_share_an_answer_that_was_begun_after_they_asked() -> None:
    answers: list[int] = []

    async def scenario(ranking: Ranking) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ranking, answers)
            await trio.sleep(0.001)
            for _ in range(20):
                nursery.start_soon(ask, ranking, answers)

    run(scenario)

    # the first answer was under way when the others asked
    assert answers == [1] + [2] * 20


def test_between_two_answers_there_is_time_for_everything_else() -> None:
    answers: list[int] = []

    async def scenario(ranking: Ranking) -> None:
        for _ in range(3):
            await ask(ranking, answers)

    first, second, third = run(scenario).begun_at

    assert answers == [1, 2, 3]
    assert min(second - first, third - second) >= (1 + SHARE) * TOOK_S


def test_one_who_gives_up_leaves_nobody_an_answer_from_before_his_call() -> None:
    answers: list[int] = []

    async def scenario(ranking: Ranking) -> None:
        await ask(ranking, answers)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(give_up, ranking)
            await trio.sleep(0.001)
            nursery.start_soon(ask, ranking, answers)

    async def give_up(ranking: Ranking) -> None:
        with trio.move_on_after(SHARE * TOOK_S + 0.005):
            await ask(ranking, answers)

    run(scenario)

    assert answers == [1, 2]


def test_a_number_out_of_bounds_is_refused_before_any_work() -> None:
    async def scenario(ranking: Ranking) -> None:
        with pytest.raises(InvalidRequest, match="at most 30"):
            await ranking.read_blockers(ReadBlockers(31), cast(Any, None))

    assert run(scenario).begun_at == []
