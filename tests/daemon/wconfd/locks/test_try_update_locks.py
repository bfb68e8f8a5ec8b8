"""tryUpdateLocks: all or nothing, now (wconfd.md 5.2 and 5.3)."""

from collections.abc import Callable

import pytest

from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_all_is_granted_or_the_owners_in_the_way_are_answered(
    cluster: Cluster, connect: Callable[[str], Wire], job: Job, dialect: str
) -> None:
    call = connect(dialect)

    assert call("tryUpdateLocks", job(1), [["node/a", "shared"], ["node/b", "exclusive"]]) == []
    assert call("tryUpdateLocks", job(2), [["node/a", "shared"]]) == []
    assert call("tryUpdateLocks", job(3), [["node/c", "exclusive"], ["node/a", "exclusive"]]) == [job(1), job(2)]

    assert call("listLocks", job(1)) == [["node/a", "shared"], ["node/b", "exclusive"]]
    assert call("listLocks", job(3)) == []


def test_a_request_delivered_twice_succeeds_twice(call: Wire, job: Job) -> None:
    for _ in range(2):
        assert call("tryUpdateLocks", job(1), [["node/b", "exclusive"]]) == []

    assert call("listLocks", job(1)) == [["node/b", "exclusive"]]


def test_an_owner_is_the_same_with_a_pid_and_without(call: Wire, job: Job) -> None:
    with_pid, without = [*job(1), 4711], job(1)
    call("tryUpdateLocks", with_pid, [["node/a", "exclusive"]])

    assert call("tryUpdateLocks", without, [["node/b", "shared"]]) == []

    assert call("listLocks", with_pid) == call("listLocks", without) == [["node/a", "exclusive"], ["node/b", "shared"]]
    # the pid once known is shown
    assert call("tryUpdateLocks", job(2), [["node/a", "shared"]]) == [with_pid]
    call("freeLocks", without)
    assert call("listAllLocks") == []


def test_two_requests_that_cross_are_ended_by_the_order(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["node/a", "exclusive"]])
    call("tryUpdateLocks", job(2), [["node/b", "exclusive"]])

    assert call("updateLocksWaiting", job(1), 0, [["node/b", "exclusive"]]) == [job(2)]
    with pytest.raises(Refused, match="lock order violation: 'node/a' asked while holding 'node/b'"):
        call("updateLocksWaiting", job(2), 0, [["node/a", "exclusive"]])

    assert call("hasPendingRequest", job(2)) is False
    assert call("listLocks", job(2)) == [["node/b", "exclusive"]]
    call("freeLocks", job(2))
    assert call("listLocks", job(1)) == [["node/a", "exclusive"], ["node/b", "exclusive"]]


def test_a_group_acts_as_all_its_members(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["node/[lockset]", "shared"]])

    assert call("tryUpdateLocks", job(2), [["node/x", "shared"]]) == []
    assert call("tryUpdateLocks", job(3), [["node/y", "exclusive"]]) == [job(1)]
    assert call("tryUpdateLocks", job(1), [["node/[lockset]", "exclusive"]]) == [job(2)]
