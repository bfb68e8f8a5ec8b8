"""SIGHUP: how an owner of Ganeti's kind learns of its grant (wconfd.md 5.4)."""

import json
import os
from collections.abc import Callable

import pytest
import trio

from common.locks import LockRequest, Owner
from daemons.wconfd.core.locks.waiting import free_all, update_or_queue
from daemons.wconfd.locks.lockstore import LockStore
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]
Spawn = Callable[[int], Holder]
N = [["node/n", "exclusive"]]


def test_the_owner_of_a_granted_request_is_told_once_it_is_on_disk(call: Wire, job: Job, spawn: Spawn) -> None:
    waiter = spawn(2)
    call("tryUpdateLocks", job(1), N)
    assert call("updateLocksWaiting", waiter.owner, 0, N) == [job(1)]

    call("freeLocks", job(1))

    assert json.loads(waiter.told()) == [[[waiter.owner, N]], []]
    assert call("hasPendingRequest", waiter.owner) is False


def test_a_request_granted_at_once_is_told_by_its_answer_alone(call: Wire, job: Job, spawn: Spawn) -> None:
    holder = spawn(1)
    call("tryUpdateLocks", holder.owner, N)
    call("freeLocks", holder.owner)
    call("tryUpdateLocks", job(2), N)
    assert call("updateLocksWaiting", holder.owner, 0, N) == [job(2)]
    call("freeLocks", job(2))

    # the first signal is that of the one grant it had to wait for
    assert json.loads(holder.told())[0] == [[holder.owner, N]]


def test_a_pid_that_cannot_be_signalled_harms_nobody(cluster: Cluster, connect: Callable[..., Wire], job: Job) -> None:
    call = connect()
    wconfd = cluster.daemons["wconfd"].pid
    for pid in (wconfd, -wconfd, 2**31, 2**62):
        call("tryUpdateLocks", job(1), N)
        call("updateLocksWaiting", [*job(2), pid], 0, N)
        call("freeLocks", job(1))

        assert call("listLocks", job(2)) == N
        call("freeLocks", job(2))


@pytest.mark.trio
async def test_only_a_process_that_lives_is_signalled_never_a_group(
    idle: Cluster, job: Job, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signalled.append(pid))
    store = LockStore.load(idle.paths.locks_data)
    await nursery.start(store.run)
    request = [LockRequest.from_wire(item) for item in N]
    holder = Owner.from_wire(job(1))
    waiters = [[*job(2), pid] for pid in (0, 1, -1, -4711, os.getpid(), 4711)] + [[3, "/nowhere", 4712]]

    for waiter in map(Owner.from_wire, waiters):
        await store.try_update(holder, request)
        await store.change(waiter, lambda state, waiter=waiter: update_or_queue(state, waiter, 0, request))  # type: ignore[misc]
        await store.change(holder, lambda state: free_all(state, holder))
        assert store.held_by(waiter)
        await store.change(waiter, lambda state, waiter=waiter: free_all(state, waiter))  # type: ignore[misc]

    assert signalled == [4711]
