"""updateLocksWaiting queues, waitLocks sleeps until the grant (wconfd.md 5.3; DESIGN section 4)."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

Job = Callable[[int], WireOwner]
Connect = Callable[..., Wire]
N = [["node/n", "exclusive"]]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_a_waiter_is_told_when_the_lock_is_released(cluster: Cluster, connect: Connect, job: Job, dialect: str) -> None:
    call, waiter = connect(dialect), connect(dialect)
    call("tryUpdateLocks", job(1), N)
    assert waiter("updateLocksWaiting", job(2), 0, N) == [job(1)]
    waiter.send("waitLocks", job(2), 30)
    assert call("hasPendingRequest", job(2)) is True
    assert waiter.is_silent()

    call("freeLocksLevel", job(1), "node")

    assert waiter.result() is True
    assert call("listLocks", job(2)) == N


def test_the_answer_is_false_when_the_time_is_over_and_the_request_stays(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", job(2), 0, N)

    assert call("waitLocks", job(2), 0.01) is False
    assert call("waitLocks", job(2), 0) is False
    assert call("waitLocks", job(2), -1) is False

    assert call("hasPendingRequest", job(2)) is True


def test_whoever_lost_the_answer_asks_again_and_is_told_the_truth(cluster: Cluster, connect: Connect, job: Job) -> None:
    call, lost = connect(), connect()
    call("tryUpdateLocks", job(1), N)
    lost("updateLocksWaiting", job(2), 0, N)
    lost.send("waitLocks", job(2), 30)
    call("echo", "the call before has been read, or is about to be")
    lost.close()
    assert call("updateLocksWaiting", job(2), 0, N) == [job(1)]

    call("freeLocks", job(1))

    assert call("updateLocksWaiting", job(2), 0, N) == []
    assert call("waitLocks", job(2), 30) is True


def test_waiters_are_granted_in_order_of_priority_then_owner(cluster: Cluster, connect: Connect, job: Job) -> None:
    call = connect()
    waiters = {number: connect() for number in (2, 3, 4, 5)}
    call("tryUpdateLocks", job(1), N)
    for number, priority in ((5, 0), (2, 0), (3, 10), (4, -10)):
        waiters[number]("updateLocksWaiting", job(number), priority, N)
        waiters[number].send("waitLocks", job(number), 30)

    granted: list[int] = []
    call("freeLocks", job(1))
    for number in (4, 2, 5, 3):
        assert waiters[number].result() is True
        assert all(wire.is_silent() for other, wire in waiters.items() if other not in (*granted, number))
        granted.append(number)
        call("freeLocks", job(number))

    assert call("listAllLocks") == []


def test_the_same_request_again_changes_nothing_not_even_the_priority(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", job(2), 3, N)

    assert call("updateLocksWaiting", job(2), -20, N) == [job(1)]

    assert call("listLocksWaitingStatus")[1] == [[3, job(2), N]]


def test_another_request_is_refused_while_one_is_pending(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", job(2), 0, N)

    for method, args in (("updateLocksWaiting", [0, [["node/z", "shared"]]]), ("tryUpdateLocks", [[]])):
        with pytest.raises(Refused, match="job/2 has a pending request for 'node/n'; wait until it is granted"):
            call(method, job(2), *args)


def test_who_sleeps_is_woken_when_its_request_is_given_up(cluster: Cluster, connect: Connect, job: Job) -> None:
    call, waiter = connect(), connect()
    call("tryUpdateLocks", job(1), N)
    waiter("updateLocksWaiting", job(2), 0, N)
    waiter.send("waitLocks", job(2), 30)

    call("freeLocks", job(2))

    assert waiter.result() is True
    assert call("listLocks", job(2)) == []


def test_a_batch_asks_waits_and_reads_in_one_message(cluster: Cluster, connect: Connect, job: Job) -> None:
    wire = connect("jsonrpc")
    calls: list[dict[str, Any]] = [
        {"method": "updateLocksWaiting", "params": {"owner": job(1), "priority": 0, "requests": N}},
        {"method": "waitLocks", "params": {"owner": job(1), "timeout": 30}},
        {"method": "listLocks", "params": [job(1)]},
    ]
    message = [{"jsonrpc": "2.0", "id": number, **call} for number, call in enumerate(calls)]

    wire.send_bytes(json.dumps(message).encode() + b"\x03")

    assert [each["result"] for each in wire.reply()] == [[], True, N]


def test_a_waiter_that_went_away_is_forgotten_at_once_and_its_request_stays(
    cluster: Cluster, connect: Connect, job: Job
) -> None:
    call = connect()
    call("tryUpdateLocks", job(1), N)
    folder = f"/proc/{cluster.daemons['wconfd'].pid}/fd"
    before = len(os.listdir(folder))
    waiters = [connect() for _ in range(50)]
    for waiter in waiters:
        assert waiter("updateLocksWaiting", job(2), 0, N) == [job(1)]
        waiter.send("waitLocks", job(2), 60)

    for waiter in waiters[1:]:
        waiter.close()

    wait_until(lambda: len(os.listdir(folder)) <= before + 1, what="the connections are closed")
    call("freeLocks", job(1))
    assert waiters[0].result() is True
    assert call("listLocks", job(2)) == N


def test_a_waiter_that_only_ended_what_it_says_is_told(cluster: Cluster, connect: Connect, job: Job) -> None:
    call, waiter = connect(), connect()
    call("tryUpdateLocks", job(1), N)
    waiter("updateLocksWaiting", job(2), 0, N)
    waiter.send("waitLocks", job(2), 60)
    waiter.half_close()

    call("freeLocks", job(1))

    assert waiter.result() is True
    with pytest.raises(EOFError):
        waiter.result()


def test_a_change_is_made_also_if_its_caller_has_gone(cluster: Cluster, connect: Connect, job: Job) -> None:
    call = connect()
    for _ in range(50):
        lost = connect()
        lost.send("tryUpdateLocks", job(1), N)
        lost.close()

        wait_until(lambda: call("listLocks", job(1)) == N, what="the locks are taken")
        call("freeLocks", job(1))
