"""Long histories of the core beside its dumb twins; run as a module, with a count of steps, for more."""

import random
import sys
from collections.abc import Callable

import pytest

from common.errors import LockRuleViolation
from common.locks import LockLevel, LockMode, LockRequest, Owner
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.waiting import LockChange, LockState
from tests.property.wconfd.test_lock_waiting import has_ring
from tests.support.locks import state_text
from tests.support.naive.fairness import NaiveFairLocks
from tests.support.naive.lock_strategies import LOCKS
from tests.support.naive.locks import NaiveLocks

OWNERS = [Owner(number, f"/l{number}") for number in range(6)] + [Owner(name, f"/{name}") for name in ("luxid", "x")]
OPERATIONS = 50_000
MODES = [LockMode.SHARED, LockMode.SHARED, LockMode.EXCLUSIVE, None]

Answer = tuple[list[Owner], list[Owner]] | str


class Fuzz:
    """One history, applied to both; their replies and states must agree after each operation."""

    def __init__(self, seed: int, max_bypass: int | None) -> None:
        self._random = random.Random(seed)
        self._max_bypass = max_bypass
        self.state = LockState.fair(max_bypass)
        self.twin = NaiveLocks() if max_bypass is None else NaiveFairLocks(max_bypass)
        self.operations = self.waits = self.grants = self.refusals = 0

    def run(self, operations: int) -> None:
        for _ in range(operations):
            self._step()
            self.operations += 1
            if self.operations % 5000 == 0:
                # a fresh beginning, so that it does not always look alike
                for who in OWNERS:
                    self._free(who)

    def _free(self, who: Owner) -> None:
        self._both(lambda state: waiting.free_all(state, who), lambda: ([], self.twin.free_all(who)))

    def _step(self) -> None:
        who, choice = self._random.choice(OWNERS), self._random.random()
        items = self._items()
        if choice < 0.35:
            self._both(
                lambda state: waiting.update_or_queue(state, who, int(choice > 0.3), items),
                lambda: self.twin.update_or_queue(who, int(choice > 0.3), items),
            )
        elif choice < 0.55:
            self._both(lambda state: waiting.try_update(state, who, items), lambda: self.twin.try_update(who, items))
        elif choice < 0.75:
            self._free(who)
        else:
            self._rarer(who, choice)

    def _rarer(self, who: Owner, choice: float) -> None:
        level, kept = self._random.choice(list(LockLevel)), self._random.sample(LOCKS, 3)
        wanted = [(lock, LockMode.SHARED if choice < 0.9 else LockMode.EXCLUSIVE) for lock in kept]
        if choice < 0.80:
            self._both(
                lambda state: waiting.free_level(state, who, level), lambda: ([], self.twin.free_level(who, level))
            )
        elif choice < 0.85:
            self._both(
                lambda state: waiting.downgrade_level(state, who, level),
                lambda: ([], self.twin.downgrade_level(who, level)),
            )
        elif choice < 0.89:
            self._both(lambda state: waiting.intersect(state, who, kept), lambda: ([], self.twin.intersect(who, kept)))
        elif choice < 0.99:
            self.state = (change := waiting.guarded_union(self.state, who, 2, wanted)).state
            assert list(change.taken) == self.twin.union(who, wanted, 2)
        elif self._max_bypass is None:
            self.state = decode(encode(self.state))
        self._compare()

    def _items(self) -> list[LockRequest]:
        locks = self._random.sample(LOCKS, self._random.choice([1, 1, 1, 2, 3]))
        return [LockRequest(lock, self._random.choice(MODES)) for lock in locks]

    def _both(
        self, act: Callable[[LockState], LockChange], naive: Callable[[], tuple[list[Owner], list[Owner]]]
    ) -> None:
        expected: Answer
        answer: Answer
        try:
            expected = naive()
        except LockRuleViolation as error:
            expected = type(error).__name__
        try:
            change = act(self.state)
            self.state, answer = change.state, (list(change.blocked_on), list(change.granted))
            self.waits += bool(change.blocked_on)
            self.grants += len(change.granted)
        except LockRuleViolation as error:
            answer = type(error).__name__
            self.refusals += 1
        assert answer == expected
        self._compare()

    def _compare(self) -> None:
        held = {who: dict(self.state.table.modes_of(who)) for who in OWNERS if self.state.table.modes_of(who)}
        assert held == self.twin.held, state_text(self.state)
        pending = {each.owner: list(each.requests) for each in self.state.all_pending()}
        assert pending == {who: wanted for who, (_, wanted) in self.twin.pending.items()}, state_text(self.state)
        if self.state.is_fair:
            assert not has_ring({who: waiting.blockers(self.state, who) for who in OWNERS}), state_text(self.state)


@pytest.mark.parametrize("max_bypass", [None, 2], ids=["exact", "fair"])
def test_a_long_random_history_is_the_same_for_the_core_and_its_twin(max_bypass: int | None) -> None:
    fuzz = Fuzz(seed=1, max_bypass=max_bypass)

    fuzz.run(OPERATIONS)

    assert fuzz.operations == OPERATIONS
    # the history is worth something
    assert min(fuzz.waits, fuzz.grants, fuzz.refusals) > OPERATIONS / 50


def main(operations: int) -> None:
    """Both kinds of state, each with so many operations, another seed each hundred thousand."""
    for max_bypass in (None, 0, 2):
        for seed in range(max(1, operations // 100_000)):
            fuzz = Fuzz(seed, max_bypass)
            fuzz.run(min(operations, 100_000))
        print(f"max_bypass {max_bypass}: {operations} operations, no difference; the last history: {vars(fuzz)}"[:200])


if __name__ == "__main__":
    main(int(sys.argv[1]))
