"""Properties of allocation (wconfd.md 9.2) and of lock names (9.3)."""

from itertools import combinations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from common.errors import LockRuleViolation
from common.locks import Lock, LockLevel, LockMode, LockRequest, Owner, parse_lock
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.table import LockTable, Verdict, update_locks
from daemons.wconfd.core.locks.waiting import LockState
from tests.support.naive.lock_strategies import (
    GROUPS,
    LOCKS,
    OWNERS,
    conflicts,
    items,
    locks,
    modes,
    owners,
    request_lists,
    tables,
)
from tests.support.naive.locks import NaiveLocks

quick = settings(max_examples=150, deadline=None)


def naive(table: LockTable) -> NaiveLocks:
    twin = NaiveLocks()
    twin.held = {who: dict(table.held_by(who)) for who in table.owners()}
    return twin


def answer(table: LockTable, who: Owner, requests: list[LockRequest]) -> Verdict | type[LockRuleViolation]:
    try:
        return update_locks(table, who, requests)
    except LockRuleViolation as error:
        return type(error)


def freed(table: LockTable, who: Owner) -> LockTable:
    return update_locks(table, who, [LockRequest(lock, None) for lock in table.held_by(who)]).table


@quick
@given(tables())
def test_no_two_owners_hold_what_conflicts(table: LockTable) -> None:
    for a, b in combinations(table.owners(), 2):
        for held_by_a in table.held_by(a).items():
            for held_by_b in table.held_by(b).items():
                assert not conflicts(held_by_a, held_by_b), (a, held_by_a, b, held_by_b)


@quick
@given(tables())
def test_the_listings_say_exactly_what_is_held(table: LockTable) -> None:
    twin = naive(table)
    held = {lock for held in twin.held.values() for lock in held}
    active = sorted(held | {lock.group for lock in held if lock.group})

    assert list(table.active_locks()) == active
    assert [(lock, dict(holders)) for lock, holders in table.locks_with_holders()] == [
        (lock, {who: mode for who in OWNERS if (mode := twin.mode(who, lock))}) for lock in active
    ]
    assert all(table.held_by(who) for who in table.owners())
    assert list(table.owners()) == sorted(table.owners(), key=Owner.sort_key)


@quick
@given(tables())
def test_when_all_listed_owners_free_everything_the_table_is_empty(table: LockTable) -> None:
    for who in table.owners():
        table = freed(table, who)

    assert table == LockTable()
    assert table.active_locks() == ()


@quick
@given(tables(), owners, request_lists)
def test_an_update_answers_as_the_dumb_twin_does(table: LockTable, who: Owner, requests: list[LockRequest]) -> None:
    verdict = answer(table, who, requests)

    blocked_on = verdict.blocked_on if isinstance(verdict, Verdict) else verdict
    assert blocked_on == naive_blockers(table, who, requests)


def naive_blockers(
    table: LockTable, who: Owner, requests: list[LockRequest]
) -> tuple[Owner, ...] | type[LockRuleViolation]:
    twin = naive(table)
    try:
        twin.check(who, requests)
    except LockRuleViolation as error:
        return type(error)
    return tuple(twin.blockers(who, requests))


@quick
@given(tables(), owners, request_lists)
def test_a_granted_request_is_true_and_a_refused_one_changes_nothing(
    table: LockTable, who: Owner, requests: list[LockRequest]
) -> None:
    verdict = answer(table, who, requests)

    if isinstance(verdict, Verdict) and not verdict.blocked_on:
        assert all(verdict.table.mode_of(who, asked.lock) is asked.mode for asked in requests)
        untouched = set(LOCKS) - {asked.lock for asked in requests}
        assert all(verdict.table.mode_of(who, lock) is table.mode_of(who, lock) for lock in untouched)
    elif isinstance(verdict, Verdict):
        assert verdict.table is table


@quick
@given(tables(), owners, request_lists)
def test_an_update_never_changes_what_others_hold(table: LockTable, who: Owner, requests: list[LockRequest]) -> None:
    before = {other: table.held_by(other) for other in OWNERS}

    verdict = answer(table, who, requests)

    after = verdict.table if isinstance(verdict, Verdict) else table
    assert all(after.held_by(other) == before[other] for other in OWNERS if other != who)
    assert all(table.held_by(other) == before[other] for other in OWNERS)


@quick
@given(tables(), owners, locks)
def test_a_release_always_succeeds(table: LockTable, who: Owner, lock: Lock) -> None:
    verdict = update_locks(table, who, [LockRequest(lock, None)])

    assert verdict.blocked_on == ()
    assert verdict.table.mode_of(who, lock) is None


@st.composite
def crowds(draw: st.DrawFn) -> LockTable:
    """Everybody shares some locks; some also hold one alone."""
    table = draw(tables())
    for who in OWNERS:
        shared = draw(st.lists(st.sampled_from(LOCKS), min_size=1, max_size=4, unique=True))
        verdict = answer(table, who, [LockRequest(lock, LockMode.SHARED) for lock in shared])
        table = verdict.table if isinstance(verdict, Verdict) else table
    return table


strangers_requests = st.lists(items, min_size=1, max_size=4, unique_by=lambda item: item.lock)
STRANGER = Owner("stranger", "/l")


@quick
@given(crowds(), strangers_requests)
def test_when_all_blockers_free_everything_the_request_is_granted(
    table: LockTable, requests: list[LockRequest]
) -> None:
    blocked_on = update_locks(table, STRANGER, requests).blocked_on
    assume(blocked_on)

    for blocker in blocked_on:
        table = freed(table, blocker)

    assert update_locks(table, STRANGER, requests).blocked_on == ()


@quick
@given(crowds(), strangers_requests)
def test_each_blocker_alone_is_enough_to_block(table: LockTable, requests: list[LockRequest]) -> None:
    blocked_on = update_locks(table, STRANGER, requests).blocked_on
    assume(len(blocked_on) >= 2)

    for last in blocked_on:
        left = table
        for other in blocked_on:
            left = left if other == last else freed(left, other)
        assert update_locks(left, STRANGER, requests).blocked_on == (last,)


@quick
@given(tables())
def test_a_table_survives_its_file(table: LockTable) -> None:
    assert decode(encode(LockState(table))).table == table


@quick
@given(items)
def test_a_request_survives_the_wire(item: LockRequest) -> None:
    assert LockRequest.from_wire(item.to_wire()) == item


any_locks = st.one_of(
    st.sampled_from(LOCKS),
    st.tuples(st.sampled_from(["instance", "nodegroup", "node", "node-res", "network"]), st.text()).map(
        lambda parts: parse_lock("/".join(parts))
    ),
)


@quick
@given(any_locks)
def test_a_lock_survives_its_name(lock: Lock) -> None:
    assert parse_lock(str(lock)) == lock


@quick
@given(any_locks, any_locks)
def test_a_group_stands_before_its_members_and_only_members_stand_between(lock: Lock, other: Lock) -> None:
    group = lock.group

    if group:
        assert group < lock
        assert not group < other <= lock or other.group == group
    else:
        assert lock.is_group or str(lock) == "cluster/config"


def test_a_level_survives_its_name() -> None:
    assert [LockLevel.parse(level.value) for level in LockLevel] == list(LockLevel)


@quick
@given(
    st.builds(
        Owner, st.one_of(st.integers(min_value=0), st.text()), st.text(), st.one_of(st.none(), st.integers(min_value=1))
    )
)
def test_an_owner_survives_the_wire(who: Owner) -> None:
    read = Owner.from_wire(who.to_wire())

    assert (read, read.pid) == (who, who.pid)
    assert isinstance(read.ident, int) == isinstance(who.ident, int)


@quick
@given(tables(), owners, st.sampled_from(GROUPS), modes)
def test_a_group_is_blocked_by_everybody_who_holds_a_member_that_conflicts(
    table: LockTable, who: Owner, group: Lock, mode: LockMode
) -> None:
    in_the_way = {
        other
        for other in table.owners()
        for held in table.held_by(other).items()
        if other != who and conflicts(held, (group, mode))
    }

    assert set(table.blockers(who, [LockRequest(group, mode)])) == in_the_way
