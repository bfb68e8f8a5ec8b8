"""Pending requests and the order of grants, against wconfd.md 5.3, 5.5 and 5.6; the file, against 6.2."""

import pytest

from common.errors import AlreadyPending, DamagedFile, LockRuleViolation, OrderViolation
from common.locks import LockLevel, Owner, parse_lock
from daemons.wconfd.core.locks.encoding import decode, encode
from daemons.wconfd.core.locks.table import LockTable
from daemons.wconfd.core.locks.waiting import (
    LockChange,
    LockState,
    blockers,
    downgrade_level,
    free_all,
    free_level,
    guarded_union,
    intersect,
    opportunistic_union,
    try_update,
    update_or_queue,
)
from tests.support.counting import python_calls
from tests.support.locks import held_text, owned, owner, requests, state_text, table_with

A, B, C, D = (owner(f"job/{number}") for number in range(1, 5))


def state_with(**holdings: str) -> LockState:
    return LockState(table_with(**holdings))


def queued(state: LockState, name: str, text: str, priority: int = 0) -> LockState:
    change = update_or_queue(state, owner(name), priority, requests(text))
    assert change.blocked_on, f"{name} was not blocked"
    return change.state


def names(owners: tuple[Owner, ...]) -> str:
    return " ".join(map(str, owners))


def test_a_blocked_request_waits_and_holds_nothing() -> None:
    state = state_with(job_1="node/n1=exclusive")

    change = update_or_queue(state, B, 0, requests("node/n0=shared node/n1=shared"))

    assert change.blocked_on == (A,)
    assert change.state.table is state.table
    pending = change.state.pending_of(B)
    assert pending is not None
    assert list(pending.requests) == requests("node/n0=shared node/n1=shared")


def test_a_possible_request_is_granted_at_once_and_does_not_wait() -> None:
    change = update_or_queue(LockState(), A, 0, requests("node/n1=shared"))

    assert (change.blocked_on, change.granted) == ((), ())
    assert change.state.pending_of(A) is None
    assert held_text(change.state.table, "job/1") == "node/n1=shared"


def test_a_refused_request_is_never_queued() -> None:
    state = state_with(job_1="node/n5=shared", job_2="node/n1=exclusive")

    with pytest.raises(OrderViolation):
        update_or_queue(state, A, 0, requests("node/n1=shared"))

    assert state.all_pending() == ()


@pytest.mark.parametrize("text", ["", "node/n1=shared", "node/n1=release"])
def test_while_pending_nothing_may_be_updated_now(text: str) -> None:
    state = queued(state_with(job_1="node/n1=exclusive"), "job/2", "node/n1=shared")

    with pytest.raises(AlreadyPending, match="'node/n1'"):
        try_update(state, B, requests(text))


@pytest.mark.parametrize("text", ["", "node/n2=shared node/n1=shared", "node/n1=shared", "node/n1=exclusive"])
def test_while_pending_no_other_list_may_be_queued(text: str) -> None:
    state = queued(state_with(job_1="node/n1=exclusive"), "job/2", "node/n1=shared node/n2=shared")

    with pytest.raises(AlreadyPending):
        update_or_queue(state, B, 0, requests(text))


def test_the_same_list_again_answers_who_is_in_the_way_now_and_keeps_its_priority() -> None:
    state = state_with(job_1="node/n1=shared", job_3="node/n1=shared")
    state = queued(state, "job/2", "node/n1=exclusive", priority=5)
    state = free_all(state, A).state

    again = update_or_queue(state, B, -5, requests("node/n1=exclusive"))

    assert again == LockChange(state, blocked_on=(C,))
    assert again.state is state
    assert [pending.priority for pending in again.state.all_pending()] == [5]


def test_what_is_exactly_true_succeeds_where_the_rules_would_complain() -> None:
    state = state_with(job_1="instance/i1=shared node/n1=shared")

    change = try_update(state, A, requests("instance/i1=shared instance/i0=release"))

    assert change.state is state


def test_what_is_not_exactly_true_must_follow_the_rules() -> None:
    state = state_with(job_1="node/[lockset]=shared node/n1=shared")

    with pytest.raises(LockRuleViolation):
        try_update(state, A, requests("node/n1=exclusive"))


def test_release_grants_in_the_order_of_priority_then_names_then_job_number() -> None:
    state = state_with(job_1="node/n1=exclusive")
    for name, priority in [("job/12", 0), ("job/9", 0), ("luxid", 0), ("job/99", -1), ("job/5", 7)]:
        state = queued(state, name, "node/n1=shared", priority)

    change = free_all(state, A)

    assert names(change.granted) == "job/99 luxid job/9 job/12 job/5"


def test_waiters_for_one_exclusive_lock_get_it_one_by_one() -> None:
    state = state_with(job_1="node/n1=exclusive")
    for name in ["job/3", "job/2", "job/4"]:
        state = queued(state, name, "node/n1=exclusive")

    order = []
    for holder in [A, B, C]:
        change = free_level(state, holder, LockLevel.NODE)
        state = change.state
        order.append(names(change.granted))

    assert order == ["job/2", "job/3", "job/4"]


def test_a_newcomer_may_pass_a_pending_exclusive_request() -> None:
    state = queued(state_with(job_1="node/n1=shared"), "job/2", "node/n1=exclusive", priority=-20)

    change = update_or_queue(state, C, 19, requests("node/n1=shared"))

    assert change.blocked_on == ()
    assert blockers(change.state, B) == (A, C)


def test_a_grant_that_releases_locks_lets_an_earlier_one_in() -> None:
    state = state_with(job_1="node/n1=exclusive", job_3="instance/i1=exclusive")
    state = queued(state, "job/2", "instance/i1=exclusive", priority=-5)
    state = queued(state, "job/3", "instance/i1=release node/n1=exclusive", priority=5)

    change = free_all(state, A)

    assert names(change.granted) == "job/3 job/2"
    assert state_text(change.state) == "job/2: instance/i1=exclusive\njob/3: node/n1=exclusive"


def test_after_each_grant_the_trial_starts_again_from_the_top() -> None:
    state = state_with(job_1="node/n1=exclusive", job_3="instance/i1=exclusive")
    # job 2 gains by job 3's release; job 4 comes after both, and would take the same lock
    state = queued(state, "job/2", "instance/i1=exclusive", priority=0)
    state = queued(state, "job/3", "instance/i1=release node/n1=exclusive", priority=1)
    state = queued(state, "job/4", "instance/i1=exclusive", priority=2)

    change = free_all(state, A)

    assert names(change.granted) == "job/3 job/2"
    assert blockers(change.state, D) == (B,)


def test_a_pending_upgrade_is_granted_when_the_owner_is_the_last_to_share() -> None:
    state = state_with(job_1="node/n1=shared", job_2="node/n1=shared", job_3="node/n1=shared")
    state = queued(state, "job/2", "node/n1=exclusive")

    first = free_all(state, A)
    second = free_all(first.state, C)

    assert (first.granted, second.granted) == ((), (B,))


def test_two_owners_that_share_a_lock_and_both_want_it_alone_wait_for_each_other() -> None:
    state = state_with(job_1="node/n1=shared", job_2="node/n1=shared")
    state = queued(state, "job/1", "node/n1=exclusive")

    state = queued(state, "job/2", "node/n1=exclusive")

    assert (blockers(state, A), blockers(state, B)) == ((B,), (A,))


def test_a_downgrade_lets_those_in_who_share() -> None:
    state = state_with(job_1="node/n1=exclusive node/n2=exclusive cluster/config=exclusive")
    state = queued(state, "job/2", "node/n1=shared node/n2=shared")
    state = queued(state, "job/3", "node/n2=exclusive")

    change = downgrade_level(state, A, LockLevel.NODE)

    assert change.granted == (B,)
    assert held_text(change.state.table, "job/1") == "node/n1=shared node/n2=shared cluster/config=exclusive"


def test_a_member_released_lets_the_group_in() -> None:
    state = state_with(job_1="node/n1=exclusive", job_2="node/n2=shared")
    state = queued(state, "job/3", "node/[lockset]=shared")

    change = free_all(state, A)

    assert change.granted == (C,)


@pytest.mark.parametrize("level", list(LockLevel))
def test_freeing_or_downgrading_any_level_drops_the_pending_request(level: LockLevel) -> None:
    state = queued(state_with(job_1="node/n1=exclusive"), "job/2", "node/n1=shared")

    assert free_level(state, B, level).state.all_pending() == ()
    assert downgrade_level(state, B, level).state.all_pending() == ()


def test_freeing_the_cluster_level_keeps_the_configuration_lock() -> None:
    state = state_with(job_1="cluster/BGL=shared cluster/config=exclusive")

    change = free_level(state, A, LockLevel.CLUSTER)

    assert held_text(change.state.table, "job/1") == "cluster/config=exclusive"


def test_intersect_keeps_only_what_is_listed_and_drops_the_pending_request() -> None:
    state = state_with(job_1="node/n1=shared node/n2=exclusive node/n3=shared", job_2="node/n4=exclusive")
    state = queued(state, "job/1", "node/n4=shared")

    change = intersect(state, A, [parse_lock("node/n2"), parse_lock("node/n9")])

    assert state_text(change.state) == "job/1: node/n2=exclusive\njob/2: node/n4=exclusive"


def test_freeing_what_is_not_held_changes_nothing() -> None:
    state = state_with(job_1="node/n1=exclusive")

    assert free_all(state, B) == LockChange(state)
    assert free_level(state, A, LockLevel.NETWORK).state is state


def test_an_owner_that_only_waits_is_known_too() -> None:
    state = queued(state_with(job_1="node/n1=exclusive"), "job/2", "node/n1=shared")

    assert state.owners() == {A, B}


def test_opportunistic_union_takes_what_is_free_and_names_it_last_first() -> None:
    state = state_with(job_1="node/n2=exclusive", job_2="instance/i5=shared")

    change = opportunistic_union(
        state, B, owned("node/n3=exclusive instance/i1=shared node/n2=shared node/n1=shared instance/i5=shared")
    )

    assert [str(lock) for lock in change.taken] == ["node/n3", "node/n1"]
    assert held_text(change.state.table, "job/2") == "instance/i5=shared node/n1=shared node/n3=exclusive"


def test_opportunistic_union_may_take_a_lock_in_both_modes() -> None:
    change = opportunistic_union(LockState(), A, owned("node/n1=exclusive node/n1=shared"))

    assert [str(lock) for lock in change.taken] == ["node/n1", "node/n1"]
    assert held_text(change.state.table, "job/1") == "node/n1=exclusive"


def test_opportunistic_union_takes_nothing_while_pending() -> None:
    state = queued(state_with(job_1="node/n1=exclusive"), "job/2", "node/n1=shared")

    change = opportunistic_union(state, B, owned("node/n2=shared"))

    assert change == LockChange(state)


@pytest.mark.parametrize(("least", "taken"), [(0, 2), (2, 2), (3, 0)])
def test_guarded_union_takes_enough_or_nothing_and_counts_only_new_locks(least: int, taken: int) -> None:
    state = state_with(job_1="node/n1=shared")

    change = guarded_union(state, A, least, owned("node/n1=shared node/n2=shared node/n3=shared"))

    assert len(change.taken) == taken
    assert len(change.state.table.held_by(A)) == 1 + taken


@pytest.mark.parametrize("mode", ["shared", "exclusive"])
def test_handing_a_lock_over_costs_the_same_however_many_wait_behind(mode: str) -> None:
    def work_with(waiters: int) -> int:
        state = state_with(job_1="cluster/BGL=exclusive", job_2="node/n1=exclusive")
        state = queued(state, "job/3", f"cluster/BGL={mode}", priority=-1)
        for number in range(waiters):
            state = queued(state, f"job/{10 + number}", "cluster/BGL=exclusive")
            state = queued(state, f"job/{10_000 + number}", "node/n1=shared")
        calls = python_calls(lambda: free_all(state, A))
        assert free_all(state, A).granted == (C,)
        return calls

    assert work_with(1000) <= work_with(10) + 40


# locks.data


BUSY = (
    b'[[[["E","/l/e"],[["network/x","shared"]]],'
    b'[[11,"/l/11",4711],[["cluster/BGL","shared"],["node/n1","exclusive"]]]],'
    b'[[0,[12,"/l/12",4712],[["node/n1","shared"],["node/n0","release"]]]]]'
)


def test_the_file_has_owners_locks_and_requests_in_order() -> None:
    state = try_update(LockState(), Owner(11, "/l/11", 4711), requests("node/n1=exclusive cluster/BGL=shared")).state
    state = try_update(state, Owner("E", "/l/e"), requests("network/x=shared")).state
    state = update_or_queue(state, Owner(12, "/l/12", 4712), 0, requests("node/n1=shared node/n0=release")).state

    assert encode(state) == BUSY
    assert encode(LockState()) == b"[[],[]]"


def test_the_file_is_read_back_as_it_was_written() -> None:
    state = decode(BUSY)

    assert encode(state) == BUSY
    assert [who.pid for who in state.table.owners()] == [None, 4711]
    assert names(blockers(state, Owner(12, "/l/12"))) == "job/11"


def test_the_file_is_ascii_whatever_the_names() -> None:
    state = LockState(table_with(job_1="instance/zürich=shared"))

    content = encode(state)

    assert b"instance/z\\u00fcrich" in content
    assert decode(content) == state


def test_a_job_number_beyond_64_bits_survives_the_file() -> None:
    state = try_update(LockState(), Owner(10**22, "/l"), requests("node/n1=shared")).state

    assert decode(encode(state)) == state


def test_a_request_that_can_be_granted_is_granted_on_load() -> None:
    state = decode(b'[[],[[0,[12,"/l",1],[["node/n1","shared"]]]]]')

    assert state_text(state) == "job/12: node/n1=shared"


def test_a_request_that_breaks_a_rule_or_is_its_owners_second_is_dropped_on_load() -> None:
    state = decode(
        b'[[[[1,"/l"],[["node/n1","exclusive"]]],[[2,"/l"],[["node/n5","shared"]]]],'
        b'[[0,[2,"/l"],[["node/n1","shared"]]],[0,[3,"/l"],[["node/n1","shared"]]],[1,[3,"/l"],[["node/n2","shared"]]]]]'
    )

    assert [str(pending.owner) for pending in state.all_pending()] == ["job/3"]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"", "byte 0"),
        (b"[[],[]", "byte 6"),
        (b"[[],[]]\xff", "byte "),
        (b"{}", "$"),
        (b"[[]]", "$"),
        (b'[[[[1,"/l"],[]]],[]]', "$[0][0]"),
        (b'[[[[1,"/l"],[["node/n1","release"]]]],[]]', "$[0][0]"),
        (b'[[[[1,"/l"],[["nosuch/n1","shared"]]]],[]]', "$[0][0]"),
        (b'[[[[1,"/l"],[["node/n1","shared"]]],[[1,"/l"],[["node/n2","shared"]]]],[]]', "$[0][1]"),
        (b'[[[[1,"/l"],[["node/n1","shared"]]],[[2,"/l"],[["node/n1","exclusive"]]]],[]]', "$[0][1]"),
        (b'[[[[1,"/l"],[["node/n1","shared"],["node/n1","exclusive"]]]],[]]', "$[0][0]"),
        (b'[[],[[true,[1,"/l"],[]]]]', "$[1][0]"),
        (b"[[],[[0,[1],[]]]]", "$[1][0]"),
        (b'[[],[[0,[1,"/l"],[["node/n1"]]]]]', "$[1][0]"),
    ],
)
def test_a_damaged_file_is_refused_with_the_place(content: bytes, where: str) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode(content)

    assert str(caught.value.fields["where"]).startswith(where)


def test_an_unchanged_owners_row_is_not_encoded_again() -> None:
    def crowd(owners: int) -> LockState:
        state = LockState(LockTable())
        for number in range(owners):
            state = try_update(state, owner(f"job/{number}"), requests(f"node/n{number}=exclusive")).state
        encode(state)
        return try_update(state, owner("job/0"), requests("node/x=shared")).state

    few, many = crowd(10), crowd(1000)

    # one call for each owner remains: its place in the order
    assert python_calls(lambda: encode(many)) - python_calls(lambda: encode(few)) <= 2 * 990
