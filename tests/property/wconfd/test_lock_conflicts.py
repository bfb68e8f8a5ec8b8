"""One rule of lock conflict: what cores look up in an index of their own says the same as `common.locks.conflicts`."""

from itertools import product

import pytest

from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import Lock, LockMode, LockRequest, conflicts, meets, parse_lock
from daemons.luxid.core.choice.weights import LEVELS, clashing_locks, needs_of
from daemons.luxid.simulate.replay import conflict
from daemons.wconfd.core.locks.fairness import PendingRequest
from daemons.wconfd.core.locks.table import LockTable, update_locks
from tests.support.locks import owner
from tests.support.naive.lock_strategies import LOCKS

SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE
MODES = list(LockMode)
PAIRS = list(product(LOCKS, MODES, LOCKS, MODES))


@pytest.mark.parametrize(
    ("a", "b", "do_meet"),
    [
        ("node/a", "node/a", True),
        ("node/a", "node/b", False),
        ("node/[lockset]", "node/a", True),
        ("node/[lockset]", "node/[lockset]", True),
        ("node/[lockset]", "instance/a", False),
        ("node/[lockset]", "node-res/a", False),
        ("cluster/[lockset]", "cluster/BGL", True),
        ("cluster/[lockset]", "cluster/config", False),
        ("cluster/BGL", "cluster/config", False),
    ],
)
def test_locks_meet_that_are_the_same_or_a_group_and_its_member(a: str, b: str, do_meet: bool) -> None:
    one, other = parse_lock(a), parse_lock(b)

    assert meets(one, other) is meets(other, one) is do_meet
    assert not conflicts(one, SHARED, other, SHARED)
    for mode, another in ((SHARED, EXCLUSIVE), (EXCLUSIVE, SHARED), (EXCLUSIVE, EXCLUSIVE)):
        assert conflicts(one, mode, other, another) is conflicts(other, another, one, mode) is do_meet


def test_the_table_blocks_by_the_rule() -> None:
    for held, mode, asked, wanted in PAIRS:
        table = update_locks(LockTable(), owner("job/1"), [LockRequest(held, mode)]).table

        blockers = table.blockers(owner("job/2"), [LockRequest(asked, wanted)])

        assert (blockers == (owner("job/1"),)) is conflicts(held, mode, asked, wanted), (held, mode, asked, wanted)


def test_pending_requests_conflict_by_the_rule() -> None:
    for asked, wanted, other, mode in PAIRS:
        request = PendingRequest(0, owner("job/1"), (LockRequest(asked, wanted),))

        assert request.conflicts_with({other: mode}) is conflicts(asked, wanted, other, mode), (asked, other)


def test_the_simulation_conflicts_by_the_rule() -> None:
    for a, mode, b, other in PAIRS:
        assert conflict({a: mode}, {b: other}) is conflicts(a, mode, b, other), (a, mode, b, other)


def test_held_locks_clash_with_what_a_job_declares_by_the_rule() -> None:
    for needed, wanted, held, mode in PAIRS:
        if needed.level in LEVELS:
            place = LEVELS.index(needed.level)

            found = list(clashing_locks(needs_of(declaration(needed, wanted)), {held: mode}, place))

            expected = [(held, mode)] if conflicts(needed, wanted, held, mode) else []
            assert found == expected, (needed, wanted, held, mode)


def declaration(lock: Lock, mode: LockMode) -> LockDeclaration:
    """Of an opcode that needs this lock."""
    entry = (
        LevelDeclaration(mode, Scope.ALL)
        if lock.is_group
        else LevelDeclaration(mode, Scope.NAMED, frozenset({lock.name}))
    )
    return LockDeclaration(levels={lock.level: (entry,)})
