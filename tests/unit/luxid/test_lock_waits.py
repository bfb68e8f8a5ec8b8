"""What luxid makes of wconfd's explanation of a wait, and which held locks make a queued job weigh."""

import pytest

from common.ids import JobId
from common.lockdecl import LevelDeclaration, LockDeclaration, Scope
from common.locks import LockLevel, LockMode, parse_lock
from common.queue.explanation import HeldByOrphan, Holding, LetsPass, LockChain, LockWait, WaitsForLock
from daemons.luxid.core.choice.weights import LEVELS, clashing_locks, needs_of
from daemons.luxid.core.why.explain import lock_reasons
from protocol.wconfd.locks import CommandOnNode, InTheWay, OrphanedLocks, OwnerWait, WaitExplanation
from tests.support.locks import owner

SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE


def row(lock: str, mode: LockMode, holder: str, held: str, held_mode: LockMode, since: float | None) -> InTheWay:
    return InTheWay(parse_lock(lock), mode, owner(holder), parse_lock(held), held_mode, since)


def holding(who: str, lock: str, mode: LockMode, since: float | None) -> Holding:
    ident = owner(who).ident
    return Holding(who, JobId(ident) if isinstance(ident, int) else None, parse_lock(lock), mode, since)


def test_holders_are_gathered_by_the_lock_that_is_asked_for() -> None:
    in_the_way = (
        row("node/[lockset]", EXCLUSIVE, "job/1", "node/a", SHARED, 5.0),
        row("node/[lockset]", EXCLUSIVE, "me", "node/b", EXCLUSIVE, None),
        row("node-res/a", SHARED, "job/1", "node-res/a", EXCLUSIVE, 6.0),
    )
    told = WaitExplanation((OwnerWait(owner("job/3"), 0, (), 9.0, in_the_way, ()),), (owner("job/1"),), (), 1.0)

    assert list(lock_reasons(told)) == [
        WaitsForLock(
            parse_lock("node/[lockset]"),
            EXCLUSIVE,
            9.0,
            (holding("job/1", "node/a", SHARED, 5.0), holding("me", "node/b", EXCLUSIVE, None)),
            1.0,
        ),
        WaitsForLock(parse_lock("node-res/a"), SHARED, 9.0, (holding("job/1", "node-res/a", EXCLUSIVE, 6.0),), 1.0),
    ]


def test_an_orphan_in_the_way_is_told_with_its_nodes() -> None:
    in_the_way = (row("node/a", EXCLUSIVE, "job/1", "node/a", SHARED, 5.0),)
    commands = (CommandOnNode("web2", "1.0.1"), CommandOnNode("web1", "1.1.1"), CommandOnNode("web2", "1.2.1"))
    orphan = OrphanedLocks(owner("job/1"), 7.0, None, commands, ((parse_lock("node/a"), SHARED),))
    waits = (OwnerWait(owner("job/3"), 0, (), 9.0, in_the_way, ()),)

    *_, told = lock_reasons(WaitExplanation(waits, (owner("job/1"),), (), 1.0, (orphan,)))

    assert told == HeldByOrphan("job/1", JobId(1), ("web1", "web2"), 7.0, None)


def test_a_chain_a_ring_and_a_turn_are_told() -> None:
    first = OwnerWait(owner("job/3"), 0, (), 9.0, (), (owner("job/2"),))
    second = OwnerWait(owner("job/2"), 0, (), 8.0, (row("node/a", EXCLUSIVE, "job/1", "node/a", SHARED, 5.0),), ())
    told = WaitExplanation((first, second), (owner("job/1"),), ((owner("job/4"), owner("job/5")),), 1.0)

    holders = (holding("job/1", "node/a", SHARED, 5.0),)
    assert list(lock_reasons(told)) == [
        LetsPass(("job/2",), (JobId(2),), 9.0, 1.0),
        LockChain(
            (LockWait("job/2", JobId(2), parse_lock("node/a"), EXCLUSIVE, 8.0, holders),),
            ("job/1",),
            (JobId(1),),
            (("job/4", "job/5"),),
            1.0,
        ),
    ]


def test_who_does_not_wait_has_no_reason() -> None:
    assert list(lock_reasons(WaitExplanation((), (), (), 1.0))) == []


HELD = {
    parse_lock("cluster/BGL"): SHARED,
    parse_lock("node/a"): EXCLUSIVE,
    parse_lock("node/b"): SHARED,
    parse_lock("node-res/a"): EXCLUSIVE,
}


@pytest.mark.parametrize(
    ("entry", "clashing"),
    [
        (LevelDeclaration(EXCLUSIVE, Scope.NAMED, frozenset({"b", "c"})), ["node/b"]),
        (LevelDeclaration(SHARED, Scope.NAMED, frozenset({"a", "b"})), ["node/a"]),
        (LevelDeclaration(SHARED, Scope.UNKNOWN), ["node/a"]),
        (LevelDeclaration(SHARED, Scope.ALL), ["node/a"]),
        (LevelDeclaration(EXCLUSIVE, Scope.ALL), ["node/a", "node/b"]),
        (LevelDeclaration(EXCLUSIVE, Scope.NAMED, frozenset({"c"})), []),
    ],
)
def test_only_locks_that_could_keep_a_job_out_are_named(entry: LevelDeclaration, clashing: list[str]) -> None:
    needs = needs_of(LockDeclaration(levels={LockLevel.NODE: (entry,)}))

    found = clashing_locks(needs, HELD, LEVELS.index(LockLevel.NODE))

    assert [str(lock) for lock, _ in found] == clashing


def test_a_group_that_is_held_keeps_out_whoever_names_a_member() -> None:
    held = {parse_lock("node/[lockset]"): SHARED}
    place = LEVELS.index(LockLevel.NODE)

    for mode, count in ((SHARED, 0), (EXCLUSIVE, 1)):
        entry = LevelDeclaration(mode, Scope.NAMED, frozenset({"c"}))
        needs = needs_of(LockDeclaration(levels={LockLevel.NODE: (entry,)}))
        assert len(list(clashing_locks(needs, held, place))) == count


def test_of_the_big_lock_it_is_named() -> None:
    needs = needs_of(LockDeclaration(bgl=SHARED, levels={}))

    assert [str(lock) for lock, _ in clashing_locks(needs, HELD, None)] == ["cluster/BGL"]
