"""A fair state (`core.fairness`): compared with its twin; passes are bounded; no owner ever waits in a ring."""

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from common.errors import LockRuleViolation
from common.locks import Lock, LockMode, LockRequest, Owner
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.waiting import LockState
from tests.property.wconfd.test_lock_waiting import LocksAgainstTheirTwin, has_ring
from tests.support.locks import state_text
from tests.support.naive.fairness import NaiveFairLocks
from tests.support.naive.lock_strategies import OWNERS, conflicts, locks, owners, request_lists
from tests.support.naive.locks import NaiveLocks

quick = settings(max_examples=300, deadline=None)
MAX_BYPASS = 1


class FairLocksAgainstTheirTwin(LocksAgainstTheirTwin):
    max_bypass = MAX_BYPASS

    def make_twin(self) -> NaiveLocks:
        return NaiveFairLocks(MAX_BYPASS)

    @rule(who=owners, lock=locks)
    def share(self, who: Owner, lock: Lock) -> None:
        self.update(who, [LockRequest(lock, LockMode.SHARED)])

    @rule()
    def save_and_load(self) -> None:
        """Who was overdue is not stored: somebody may be granted who was held back, but nothing else is changed."""
        loaded = decode(encode(self.state), self.max_bypass)

        for who in OWNERS:
            assert loaded.table.held_by(who).items() >= self.state.table.held_by(who).items()
            if loaded.pending_of(who):
                assert loaded.pending_of(who) == self.state.pending_of(who)
                assert waiting.blockers(loaded, who)
        assert not has_ring({who: waiting.blockers(loaded, who) for who in OWNERS}), state_text(loaded)

    @invariant()
    def nobody_waits_in_a_ring(self) -> None:
        assert not has_ring({who: waiting.blockers(self.state, who) for who in OWNERS}), state_text(self.state)


TestFairLocksAgainstTheirTwin = FairLocksAgainstTheirTwin.TestCase
TestFairLocksAgainstTheirTwin.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def free_then_ask(state: LockState, who: Owner, requests: list[LockRequest]) -> waiting.LockChange:
    """One round of a client that asks for all it needs in one request, and gives all back before the next."""
    freed = waiting.free_all(state, who)
    try:
        asked = waiting.update_or_queue(freed.state, who, 0, requests)
    except LockRuleViolation:
        return freed
    return waiting.LockChange(asked.state, moves=freed.moves + asked.moves)


rounds = st.lists(st.tuples(owners, request_lists), max_size=40)


@quick
@given(st.integers(0, 3), rounds)
def test_a_request_is_passed_so_often_and_not_once_more(
    max_bypass: int, history: list[tuple[Owner, list[LockRequest]]]
) -> None:
    state = LockState.fair(max_bypass)
    passes = Counter[Owner]()
    for who, requests in history:
        before = state
        change = free_then_ask(state, who, requests)
        state = change.state
        for other in OWNERS:
            pending = before.pending_of(other)
            if pending is None or state.pending_of(other) is not pending:
                passes[other] = 0
            else:
                if not any(overdue_before(before, other)):
                    passes[other] += count_passes(change, other, list(pending.requests))
                assert passes[other] <= max_bypass, (other, state_text(state))


def overdue_before(state: LockState, who: Owner) -> Iterator[bool]:
    """Of each other overdue request: whether it conflicts with what this owner waits for."""
    pending = state.pending_of(who)
    assert pending
    for other, request in state.fairness.overdue.items():
        yield other != who and request.conflicts_with(pending.modes)


def count_passes(change: waiting.LockChange, waiter: Owner, wanted: list[LockRequest]) -> int:
    """Grants to others of something shared that `waiter` wants exclusively."""
    return sum(
        any(
            mode is LockMode.SHARED
            and item.mode is LockMode.EXCLUSIVE
            and conflicts((lock, mode), (item.lock, item.mode))
            for lock, mode in move.modes.items()
            for item in wanted
        )
        for move in change.moves
        if move.owner != waiter
    )
