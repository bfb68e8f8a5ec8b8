"""Properties of pending requests (wconfd.md 9.4 and 9.6), and the core against its dumb twin."""

from collections.abc import Callable, Collection

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from common.errors import AlreadyPending, LockRuleViolation
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner, mode_rank
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.waiting import LockChange, LockState
from tests.support.locks import state_text
from tests.support.naive.lock_strategies import (
    LOCKS,
    OWNERS,
    lock_states,
    locks,
    owners,
    priorities,
    request_lists,
    wanted,
)
from tests.support.naive.locks import NaiveLocks

quick = settings(max_examples=120, deadline=None)

Outcome = tuple[list[Owner], list[Owner]] | type[LockRuleViolation]


class LocksAgainstTheirTwin(RuleBasedStateMachine):
    """The core and the dumb twin get the same calls, and each call twice: the second changes nothing."""

    max_bypass: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.state = LockState.fair(self.max_bypass)
        self.twin = self.make_twin()

    def make_twin(self) -> NaiveLocks:
        return NaiveLocks()

    def call(self, act: Callable[[LockState], LockChange]) -> Outcome:
        try:
            change = act(self.state)
        except LockRuleViolation as error:
            return type(error)
        again = act(change.state)
        assert again.state == change.state
        assert again.granted == ()
        self.state = change.state
        return list(change.blocked_on), list(change.granted)

    def both(
        self, act: Callable[[LockState], LockChange], naive_act: Callable[[], tuple[list[Owner], list[Owner]]]
    ) -> None:
        expected: Outcome
        try:
            expected = naive_act()
        except LockRuleViolation as error:
            expected = type(error)
        assert self.call(act) == expected

    @rule(who=owners, requests=request_lists)
    def update(self, who: Owner, requests: list[LockRequest]) -> None:
        self.both(lambda state: waiting.try_update(state, who, requests), lambda: self.twin.try_update(who, requests))

    @rule(who=owners, priority=priorities, requests=request_lists)
    def queue(self, who: Owner, priority: int, requests: list[LockRequest]) -> None:
        self.both(
            lambda state: waiting.update_or_queue(state, who, priority, requests),
            lambda: self.twin.update_or_queue(who, priority, requests),
        )

    @rule(who=owners, priority=priorities, lock=locks, mode=st.sampled_from(LockMode))
    def queue_one(self, who: Owner, priority: int, lock: Lock, mode: LockMode) -> None:
        self.queue(who, priority, [LockRequest(lock, mode)])

    @rule(who=owners)
    def free_all(self, who: Owner) -> None:
        self.both(lambda state: waiting.free_all(state, who), lambda: ([], self.twin.free_all(who)))

    @rule(who=owners, level=st.sampled_from(LockLevel))
    def free_level(self, who: Owner, level: LockLevel) -> None:
        self.both(lambda state: waiting.free_level(state, who, level), lambda: ([], self.twin.free_level(who, level)))

    @rule(who=owners, level=st.sampled_from(LockLevel))
    def downgrade_level(self, who: Owner, level: LockLevel) -> None:
        self.both(
            lambda state: waiting.downgrade_level(state, who, level),
            lambda: ([], self.twin.downgrade_level(who, level)),
        )

    @rule(who=owners, kept=st.lists(locks, max_size=4))
    def intersect(self, who: Owner, kept: list[Lock]) -> None:
        self.both(lambda state: waiting.intersect(state, who, kept), lambda: ([], self.twin.intersect(who, kept)))

    @rule(who=owners, least=st.integers(0, 3), pairs=wanted)
    def union(self, who: Owner, least: int, pairs: list[tuple[Lock, LockMode]]) -> None:
        change = waiting.guarded_union(self.state, who, least, pairs)
        again = waiting.guarded_union(change.state, who, least, pairs)

        assert list(change.taken) == self.twin.union(who, pairs, least)
        assert again.state == change.state
        self.state = change.state

    @rule()
    def save_and_load(self) -> None:
        loaded = decode(encode(self.state), self.max_bypass)

        assert loaded == self.state
        assert encode(loaded) == encode(self.state)
        self.state = loaded

    @invariant()
    def the_states_agree(self) -> None:
        held = {who: dict(self.state.table.held_by(who)) for who in self.state.table.owners()}
        pending = {request.owner: (request.priority, list(request.requests)) for request in self.state.all_pending()}
        assert (held, pending) == (self.twin.held, self.twin.pending)

    @invariant()
    def every_pending_request_is_valid_and_blocked(self) -> None:
        for request in self.state.all_pending():
            self.state.table.check_rules(request.owner, request.requests)
            blocked_on = self.twin.blockers(request.owner, request.requests)
            assert blocked_on == list(waiting.blockers(self.state, request.owner)) != []


TestLocksAgainstTheirTwin = LocksAgainstTheirTwin.TestCase
TestLocksAgainstTheirTwin.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)


@st.composite
def blocked(draw: st.DrawFn) -> tuple[LockState, Owner, int, list[LockRequest]]:
    """A state, and an owner without locks and pending request whose request is blocked in it."""
    state, who = draw(lock_states()), draw(owners)
    state = waiting.free_all(state, who).state
    held = [lock for other in state.table.owners() for lock in state.table.held_by(other)]
    assume(held)
    asked = draw(st.lists(st.sampled_from(held), min_size=1, max_size=3, unique=True))
    requests = [LockRequest(lock, draw(st.sampled_from(LockMode))) for lock in asked]
    assume(state.table.blockers(who, requests))
    return state, who, draw(priorities), requests


Blocked = tuple[LockState, Owner, int, list[LockRequest]]


def free_each(state: LockState, gone: Collection[Owner]) -> tuple[LockState, list[Owner]]:
    """Everybody frees everything, in owner order; who was granted meanwhile."""
    granted: list[Owner] = []
    for who in sorted(gone, key=Owner.sort_key):
        change = waiting.free_all(state, who)
        state = change.state
        granted += change.granted
    return state, granted


@quick
@given(blocked(), request_lists, priorities)
def test_a_blocked_request_is_pending_and_nothing_else_may_be_asked(
    case: Blocked, other: list[LockRequest], priority: int
) -> None:
    state, who, at, requests = case

    state = waiting.update_or_queue(state, who, at, requests).state

    assert state.pending_of(who) is not None
    with pytest.raises(AlreadyPending):
        waiting.try_update(state, who, other)
    assume(other != requests)
    with pytest.raises(AlreadyPending):
        waiting.update_or_queue(state, who, priority, other)


@quick
@given(blocked())
def test_a_pending_request_is_granted_once_everybody_in_the_way_is_gone(case: Blocked) -> None:
    state, who, at, requests = case
    change = waiting.update_or_queue(state, who, at, requests)
    earlier = {pending.owner for pending in state.all_pending()}

    state, granted = free_each(change.state, set(change.blocked_on) | earlier)

    assert who in granted
    assert state.table.is_satisfied(who, requests)


@quick
@given(blocked())
def test_when_the_blockers_are_gone_somebody_else_goes_on(case: Blocked) -> None:
    state, who, at, requests = case
    change = waiting.update_or_queue(state, who, at, requests)

    _, granted = free_each(change.state, change.blocked_on)

    assert set(granted) - set(change.blocked_on)


@quick
@given(lock_states(), owners)
def test_who_is_granted_had_asked_and_holds_what_it_asked(state: LockState, who: Owner) -> None:
    change = waiting.free_all(state, who)

    assert who not in change.granted
    for other in change.granted:
        pending = state.pending_of(other)
        assert pending is not None
        assert change.state.pending_of(other) is None
        assert change.state.table.is_satisfied(other, pending.requests)


@quick
@given(lock_states(), owners, priorities, request_lists)
def test_a_rebuilt_state_goes_on_as_the_first_one(
    state: LockState, who: Owner, priority: int, requests: list[LockRequest]
) -> None:
    rebuilt = LockState(state.table)
    for pending in reversed(state.all_pending()):
        rebuilt = waiting.update_or_queue(rebuilt, pending.owner, pending.priority, pending.requests).state
    assert rebuilt == state

    for free_first in [None, *OWNERS]:
        changes = [waiting.free_all(one, free_first) if free_first else LockChange(one) for one in (state, rebuilt)]
        assert changes[0] == changes[1]
        first, second = (queue_or_error(change.state, who, priority, requests) for change in changes)
        assert first == second


def queue_or_error(
    state: LockState, who: Owner, priority: int, requests: list[LockRequest]
) -> LockChange | type[LockRuleViolation]:
    try:
        return waiting.update_or_queue(state, who, priority, requests)
    except LockRuleViolation as error:
        return type(error)


@quick
@given(lock_states(), owners, wanted)
def test_a_union_takes_no_lock_away_and_gives_only_what_was_asked(
    state: LockState, who: Owner, pairs: list[tuple[Lock, LockMode]]
) -> None:
    change = waiting.opportunistic_union(state, who, pairs)

    for lock in LOCKS:
        before, after = state.table.mode_of(who, lock), change.state.table.mode_of(who, lock)
        assert mode_rank(after) >= mode_rank(before)
        assert (lock, after) in pairs if lock in change.taken else after is before


@quick
@given(lock_states(), owners, st.integers(0, 4), wanted)
def test_a_guarded_union_is_the_plain_one_or_nothing(
    state: LockState, who: Owner, least: int, pairs: list[tuple[Lock, LockMode]]
) -> None:
    plain = waiting.opportunistic_union(state, who, pairs)

    known = waiting.guarded_union(state, who, least, pairs)

    assert known == (plain if len(plain.taken) >= least else LockChange(state))


@quick
@given(lock_states(), owners, st.sampled_from(LockLevel), st.lists(locks))
def test_giving_up_locks_always_succeeds_and_never_strengthens_one(
    state: LockState, who: Owner, level: LockLevel, kept: list[Lock]
) -> None:
    changes = [
        waiting.free_all(state, who),
        waiting.free_level(state, who, level),
        waiting.downgrade_level(state, who, level),
        waiting.intersect(state, who, kept),
    ]

    for change in changes:
        assert change.blocked_on == ()
        assert change.state.pending_of(who) is None
        after = change.state.table.mode_of
        assert all(mode_rank(after(who, lock)) <= mode_rank(state.table.mode_of(who, lock)) for lock in LOCKS)


@quick
@given(lock_states(), owners)
def test_an_owner_that_frees_everything_is_not_known_any_more(state: LockState, who: Owner) -> None:
    assert who not in waiting.free_all(state, who).state.owners()


@quick
@given(st.permutations(range(8)), st.lists(priorities, min_size=8, max_size=8))
def test_one_exclusive_lock_goes_round_by_priority_then_owner(arrival: list[int], urgency: list[int]) -> None:
    lock = LockRequest(LOCKS[-1], LockMode.EXCLUSIVE)
    holder = Owner("first", "/l")
    state = waiting.try_update(LockState(), holder, [lock]).state
    for number in arrival:
        state = waiting.update_or_queue(state, Owner(number, "/l"), urgency[number], [lock]).state

    served = []
    for _ in arrival:
        change = waiting.free_all(state, holder)
        state, (holder,) = change.state, change.granted
        served.append(holder.ident)

    assert served == sorted(range(8), key=lambda number: (urgency[number], number))


steps = st.lists(
    st.tuples(owners, st.lists(st.tuples(locks, st.sampled_from(LockMode)), min_size=1, max_size=3), st.booleans()),
    max_size=14,
)


@quick
@given(steps)
def test_owners_that_ask_in_order_and_upgrade_nothing_never_wait_in_a_ring(
    history: list[tuple[Owner, list[tuple[Lock, LockMode]], bool]],
) -> None:
    state = LockState()
    for who, pairs, is_end in history:
        new = [LockRequest(lock, mode) for lock, mode in pairs if state.table.mode_of(who, lock) is None]
        change = waiting.free_all(state, who) if is_end else queue_or_error(state, who, 0, new)
        state = change.state if isinstance(change, LockChange) else state

        assert not has_ring({other: waiting.blockers(state, other) for other in OWNERS}), state_text(state)


def has_ring(behind: dict[Owner, tuple[Owner, ...]]) -> bool:
    """Whether an owner waits for itself: owners that wait for no other are removed, repeatedly, until none is left."""
    left = {who: set(others) for who, others in behind.items()}
    while free := [who for who, others in left.items() if not others & left.keys()]:
        for who in free:
            del left[who]
    return bool(left)


def test_the_search_for_a_ring_finds_one() -> None:
    a, b, c, _ = OWNERS

    assert has_ring({a: (b,), b: (c,), c: (a,)})
    assert not has_ring({a: (b, c), b: (c,), c: ()})
