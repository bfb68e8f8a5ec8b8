"""Allocation, against wconfd.md 4.2 and 5.2."""

import pytest

from common.errors import LockRuleViolation, OrderViolation
from common.locks import LockLevel, LockMode, Owner, member_lock, parse_lock
from daemons.wconfd.core.locks.table import LockTable, update_locks
from tests.support.counting import python_calls
from tests.support.locks import held_text, owner, requests, table_with

A, B, C = owner("job/1"), owner("job/2"), owner("job/3")


def granted(table: LockTable, who: Owner, text: str) -> LockTable:
    verdict = update_locks(table, who, requests(text))
    assert verdict.blocked_on == ()
    return verdict.table


# The table "Consequences" of wconfd.md 5.2, and the rules before it.


@pytest.mark.parametrize(
    ("held", "asked", "after"),
    [
        ("", "node/n2=exclusive node/n1=shared", "node/n1=shared node/n2=exclusive"),
        ("", "node/n1=shared node/n1=shared", "node/n1=shared"),
        ("", "node/n1=release", ""),
        ("node/n1=shared", "node/n1=exclusive", "node/n1=exclusive"),
        ("node/n1=exclusive node/n2=shared", "node/n1=shared", "node/n1=shared node/n2=shared"),
        ("node/n1=exclusive node/n2=shared", "node/n1=exclusive", "node/n1=exclusive node/n2=shared"),
        ("node/n1=shared node/n2=shared", "node/n1=release", "node/n2=shared"),
        (
            "instance/[lockset]=exclusive node/n1=shared",
            "instance/i1=exclusive instance/i2=shared",
            "instance/[lockset]=exclusive instance/i1=exclusive instance/i2=shared node/n1=shared",
        ),
        (
            "instance/[lockset]=shared node/n1=shared",
            "instance/i1=shared",
            "instance/[lockset]=shared instance/i1=shared node/n1=shared",
        ),
        (
            "node/[lockset]=exclusive",
            "node/[lockset]=release node/n1=exclusive node/n2=exclusive",
            "node/n1=exclusive node/n2=exclusive",
        ),
        ("cluster/BGL=shared", "cluster/config=exclusive", "cluster/BGL=shared cluster/config=exclusive"),
    ],
)
def test_a_request_within_the_rules_is_applied_whole(held: str, asked: str, after: str) -> None:
    table = granted(LockTable(), A, held)

    table = granted(table, A, asked)

    assert held_text(table, "job/1") == after


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        ("node/n1=exclusive", "instance/i1=shared"),
        ("node/n1=shared node/n2=shared", "node/n1=exclusive"),
        ("node/n2=shared", "node/n1=exclusive node/n2=release"),
        ("instance/[lockset]=shared node/n1=shared", "instance/i1=exclusive"),
        ("node/n1=shared", "node/[lockset]=shared"),
        ("cluster/config=shared", "network/x=shared"),
        ("node/a9=shared", "node/a10=shared"),
    ],
)
def test_what_lies_before_a_held_lock_and_is_not_covered_is_an_order_violation(held: str, asked: str) -> None:
    table = granted(LockTable(), A, held)

    with pytest.raises(OrderViolation):
        update_locks(table, A, requests(asked))


def test_an_order_violation_says_what_to_release() -> None:
    table = table_with(job_1="node-res/n7=shared")

    with pytest.raises(OrderViolation) as caught:
        update_locks(table, A, requests("node/n1=exclusive"))

    assert caught.value.message == (
        "lock order violation: 'node/n1' asked while holding 'node-res/n7'; "
        "release 'node-res/n7' or ask for both in one request"
    )
    assert caught.value.fields == {"lock": "node/n1", "held": "node-res/n7"}


@pytest.mark.parametrize("also", ["", " node/[lockset]=release", " node/[lockset]=exclusive"])
def test_an_exclusive_lock_under_a_shared_group_is_refused_whatever_else_is_asked(also: str) -> None:
    table = table_with(job_1="node/[lockset]=shared")

    with pytest.raises(LockRuleViolation, match="exclusive lock under a shared group") as caught:
        update_locks(table, A, requests("node/n1=exclusive" + also))

    assert not isinstance(caught.value, OrderViolation)


@pytest.mark.parametrize("second", ["exclusive", "release"])
def test_two_modes_for_one_lock_are_inconsistent(second: str) -> None:
    with pytest.raises(LockRuleViolation, match="inconsistent lock request: 'node/n1' occurs twice"):
        update_locks(LockTable(), A, requests(f"node/n1=shared node/n1={second}"))


def test_inconsistency_is_found_before_disorder() -> None:
    table = table_with(job_1="node/n1=exclusive")

    with pytest.raises(LockRuleViolation, match="inconsistent"):
        update_locks(table, A, requests("instance/i1=shared node/n2=shared node/n2=release"))


@pytest.mark.parametrize(
    ("held", "asked", "is_blocked"),
    [
        ("node/n1=shared", "node/n1=shared", False),
        ("node/n1=shared", "node/n1=exclusive", True),
        ("node/n1=exclusive", "node/n1=shared", True),
        ("node/[lockset]=shared", "node/n1=shared", False),
        ("node/[lockset]=shared", "node/n1=exclusive", True),
        ("node/[lockset]=exclusive", "node/n1=shared", True),
        ("instance/i1=exclusive", "instance/[lockset]=shared", True),
        ("instance/i1=shared", "instance/[lockset]=shared", False),
        ("instance/i1=shared", "instance/[lockset]=exclusive", True),
        ("node/n1=exclusive", "node/n2=exclusive", False),
        ("cluster/BGL=exclusive", "instance/[lockset]=exclusive", False),
        ("cluster/[lockset]=exclusive", "cluster/BGL=shared", True),
        ("cluster/[lockset]=exclusive", "cluster/config=exclusive", False),
        ("node/n1=exclusive", "node/n1=release", False),
    ],
)
def test_two_owners_conflict_on_a_lock_or_its_group_if_one_is_exclusive(
    held: str, asked: str, is_blocked: bool
) -> None:
    table = table_with(job_1=held)

    verdict = update_locks(table, B, requests(asked))

    assert verdict.blocked_on == ((A,) if is_blocked else ())


def test_a_shared_group_and_a_shared_member_block_each_others_upgrade() -> None:
    table = table_with(job_1="node/[lockset]=shared", job_2="node/n1=shared")

    assert update_locks(table, A, requests("node/[lockset]=exclusive")).blocked_on == (B,)
    assert update_locks(table, B, requests("node/n1=exclusive")).blocked_on == (A,)


def test_all_owners_in_the_way_are_named_in_owner_order() -> None:
    table = table_with(job_12="node/n1=shared", job_2="node/n1=shared node/n3=shared", luxid="node/n2=exclusive")

    verdict = update_locks(table, A, requests("node/n1=exclusive node/n2=shared node/n3=shared"))

    assert verdict.blocked_on == (owner("luxid"), owner("job/2"), owner("job/12"))


def test_a_blocked_request_returns_the_very_same_table() -> None:
    table = table_with(job_1="node/n1=exclusive")

    verdict = update_locks(table, B, requests("node/n0=exclusive node/n1=shared"))

    assert verdict.table is table


def test_an_older_table_still_tells_what_was_so() -> None:
    before = table_with(job_1="node/n1=exclusive")

    after = granted(before, A, "node/n1=release")

    assert held_text(before, "job/1") == "node/n1=exclusive"
    assert after == LockTable()


def test_owners_differ_by_number_or_name_and_by_livelock_but_not_by_pid() -> None:
    table = granted(LockTable(), Owner(12, "/l", 100), "node/n1=exclusive")

    assert update_locks(table, Owner(12, "/l", 200), requests("node/n1=shared")).blocked_on == ()
    assert update_locks(table, Owner("12", "/l", 100), requests("node/n1=shared")).blocked_on
    assert update_locks(table, Owner(12, "/other", 100), requests("node/n1=shared")).blocked_on


def test_listings_show_the_pid_last_told() -> None:
    table = granted(LockTable(), Owner(12, "/l", 100), "node/n1=exclusive")
    table = granted(table, Owner(12, "/l", 200), "node/n2=exclusive")
    table = granted(table, Owner(12, "/l"), "node/n3=exclusive")

    shown = [*table.owners(), *table.holders(parse_lock("node/n1")), *table.blockers(A, requests("node/n1=shared"))]

    assert [who.pid for who in shown] == [200, 200, 200]


def test_a_group_held_through_members_is_active_without_holders() -> None:
    table = table_with(job_1="node/n1=shared cluster/config=exclusive", job_2="node/n1=shared")

    listed = [(str(lock), dict(holders)) for lock, holders in table.locks_with_holders()]

    assert listed == [
        ("node/[lockset]", {}),
        ("node/n1", {A: LockMode.SHARED, B: LockMode.SHARED}),
        ("cluster/config", {A: LockMode.EXCLUSIVE}),
    ]
    assert [str(lock) for lock in table.active_locks()] == ["node/[lockset]", "node/n1", "cluster/config"]


def test_the_order_rule_forgets_a_released_lock() -> None:
    table = granted(table_with(job_1="node/n1=shared node/n5=shared"), A, "node/n5=release")

    table = granted(table, A, "node/n2=shared")

    with pytest.raises(OrderViolation, match="holding 'node/n2'"):
        update_locks(table, A, requests("node/n0=shared"))


def crowded_table(held: int) -> LockTable:
    """Two owners, of which each holds half of `held` node locks."""
    locks = [member_lock(LockLevel.NODE, f"n{number}") for number in range(held)]
    table = LockTable()
    for who, part in [(A, locks[: held // 2]), (B, locks[held // 2 :])]:
        table = table.set_modes(who, dict.fromkeys(part, LockMode.EXCLUSIVE))
    return table


@pytest.fixture(scope="module")
def tables() -> tuple[LockTable, LockTable]:
    return crowded_table(100), crowded_table(100_000)


@pytest.mark.parametrize("asked", ["node/x=exclusive", "node/x=exclusive node/n7=release", "cluster/config=exclusive"])
def test_an_update_looks_at_no_more_locks_when_a_hundred_thousand_are_held(
    tables: tuple[LockTable, LockTable], asked: str
) -> None:
    few, many = tables
    items = requests(asked)

    calls_with_few = python_calls(lambda: update_locks(few, A, items))
    calls_with_many = python_calls(lambda: update_locks(many, A, items))

    # a collision on the way down the trie may cost a comparison
    assert calls_with_many <= calls_with_few + 20
