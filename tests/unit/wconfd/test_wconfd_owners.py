"""The index by which a death finds its owners (DESIGN section 5)."""

import pytest
import trio
import trio.testing

from common.ids import JobId
from common.locks import Owner
from daemons.wconfd.locks.lockstore import KnownOwners

A, B = Owner(JobId(1), "/run/livelocks/job_1"), Owner("thread", "/run/livelocks/job_1")
C, ALIAS = Owner(JobId(2), "/run/livelocks/job_2"), Owner(JobId(3), "/var/run/livelocks/job_2")


def test_a_file_name_finds_every_path_that_ends_in_it() -> None:
    known = KnownOwners([A, B, C, ALIAS])

    assert known.paths_named(["job_1", "job_1", "unknown"]) == [A.livelock]
    assert sorted(known.paths_named(["job_2"])) == [C.livelock, ALIAS.livelock]


def test_forgetting_a_livelock_answers_its_owners_once_and_leaves_the_others() -> None:
    known = KnownOwners([A, B, C, ALIAS])

    assert known.forget(A.livelock) == {A, B}
    assert known.forget(A.livelock) == frozenset()
    assert known.forget(C.livelock) == {C}

    assert known.paths() == (ALIAS.livelock,)
    assert known.paths_named(["job_1", "job_2"]) == [ALIAS.livelock]


def test_what_is_not_kept_is_forgotten() -> None:
    known = KnownOwners([A, B, C])

    known.keep(frozenset({B}))

    assert known.paths_named(["job_1", "job_2"]) == [B.livelock]
    assert known.forget(B.livelock) == {B}


@pytest.mark.trio
async def test_each_new_livelock_is_answered_once_and_again_after_it_was_forgotten(nursery: trio.Nursery) -> None:
    known = KnownOwners([C])
    seen: list[list[str]] = []

    async def look() -> None:
        while True:
            seen.append(await known.newcomers())

    nursery.start_soon(look)
    for owner in (A, B, C, A):
        known.meet(owner)
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [[A.livelock]]

    known.restore(known.forget(A.livelock))
    await trio.testing.wait_all_tasks_blocked()
    assert len(seen) == 1

    known.forget(A.livelock)
    known.meet(B)
    await trio.testing.wait_all_tasks_blocked()
    assert seen == [[A.livelock], [A.livelock]]
    nursery.cancel_scope.cancel()
