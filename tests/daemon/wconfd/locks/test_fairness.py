"""Fair by default, Ganeti's behaviour by setting (`core.locks.fairness`; wconfd.md 5.3); why owners wait."""

import json
from collections.abc import Callable

import pytest

from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks

Job = Callable[[int], WireOwner]
Connect = Callable[..., Wire]
SHARED, ALONE = [["node/n", "shared"]], [["node/n", "exclusive"]]
EXACT = "[wconfd]\nsweep_s = 3600.0\nfair = false\n"
STRICT = "[wconfd]\nsweep_s = 3600.0\nmax_bypass = 1\n"


def start(cluster: Cluster, settings: str) -> None:
    cluster.configure(settings)
    cluster.start("wconfd")


def test_newcomers_wait_behind_an_exclusive_request_that_was_passed_often_enough(
    idle: Cluster, connect: Connect, job: Job
) -> None:
    start(idle, STRICT)
    call, waiter, late = connect(), connect(), connect()
    call("tryUpdateLocks", job(1), SHARED)
    waiter("updateLocksWaiting", job(2), 0, ALONE)
    assert call("tryUpdateLocks", job(3), SHARED) == []

    assert late("updateLocksWaiting", job(4), -10, SHARED) == [job(2)]
    assert call("opportunisticLockUnion", job(5), SHARED) == []
    for number in (1, 3):
        call("freeLocks", job(number))

    assert waiter("waitLocks", job(2), 30) is True
    assert call("hasPendingRequest", job(4)) is True
    call("freeLocks", job(2))
    assert late("waitLocks", job(4), 30) is True


def test_who_was_held_back_still_is_after_a_restart(idle: Cluster, connect: Connect, job: Job) -> None:
    start(idle, STRICT)
    call = connect()
    call("tryUpdateLocks", job(1), SHARED)
    call("updateLocksWaiting", job(2), 0, ALONE)
    call("tryUpdateLocks", job(3), SHARED)
    call("updateLocksWaiting", job(4), -10, SHARED)
    before = call("listLocksWaitingStatus")

    idle.restart("wconfd")

    assert connect()("listLocksWaitingStatus") == before


def test_what_a_restart_grants_is_durable_before_anybody_is_told(idle: Cluster, connect: Connect, job: Job) -> None:
    start(idle, STRICT)
    call = connect()
    call("tryUpdateLocks", job(1), SHARED)
    call("updateLocksWaiting", job(2), 0, ALONE)
    call("tryUpdateLocks", job(3), SHARED)
    call("updateLocksWaiting", job(4), -10, SHARED)
    idle.kill("wconfd")

    start(idle, EXACT)

    assert connect()("waitLocks", job(4), 0) is True
    held, pending = json.loads(durable_locks(idle.paths.locks_data))
    assert [job(4), SHARED] in held
    assert pending == [[0, job(2), ALONE]]


def test_by_setting_newcomers_pass_for_ever(idle: Cluster, connect: Connect, job: Job) -> None:
    start(idle, EXACT)
    call = connect()
    call("tryUpdateLocks", job(1), SHARED)
    call("updateLocksWaiting", job(2), 0, ALONE)

    assert all(call("tryUpdateLocks", job(number), SHARED) == [] for number in range(3, 30))


def test_the_second_of_two_upgrades_is_refused_and_the_first_goes_on(
    cluster: Cluster, connect: Connect, job: Job
) -> None:
    call, waiter = connect("jsonrpc"), connect()
    for number in (1, 2):
        call("tryUpdateLocks", job(number), SHARED)
    waiter("updateLocksWaiting", job(1), 0, ALONE)

    with pytest.raises(Refused, match="deadlock: job/2 would wait for job/1, which waits for job/2; release"):
        call("updateLocksWaiting", job(2), 0, ALONE)

    assert call("hasPendingRequest", job(2)) is False
    call("freeLocks", job(2))
    assert waiter("waitLocks", job(1), 30) is True


def test_by_setting_two_upgrades_wait_for_each_other_and_the_ring_is_explained(
    idle: Cluster, connect: Connect, job: Job
) -> None:
    start(idle, EXACT)
    call = connect()
    for number in (1, 2):
        call("tryUpdateLocks", job(number), SHARED)
    for number in (1, 2):
        assert call("updateLocksWaiting", job(number), 0, ALONE) == [job(3 - number)]

    assert call("explainWait", job(1))["rings"] == [[job(1), job(2)]]


def test_a_wait_is_explained_with_instants_that_a_restart_forgets(idle: Cluster, connect: Connect, job: Job) -> None:
    idle.start("wconfd")
    call = connect()
    call("tryUpdateLocks", job(1), ALONE)
    call("updateLocksWaiting", job(2), 0, SHARED)

    before = call("explainWait", job(2))
    idle.restart("wconfd")
    after = connect()("explainWait", job(2))

    [wait], [row] = before["waits"], before["waits"][0]["in_the_way"]
    assert before["roots"] == [job(1)]
    assert before["counting_since"] <= row["held_since"] <= wait["waiting_since"] <= after["counting_since"]
    assert (row["lock"], row["mode"], row["holder"]) == ("node/n", "shared", job(1))
    assert (row["held"], row["held_mode"]) == ("node/n", "exclusive")
    assert after["waits"][0]["waiting_since"] is None
    assert after["waits"][0]["in_the_way"][0]["held_since"] is None
