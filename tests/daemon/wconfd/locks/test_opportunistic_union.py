"""opportunisticLockUnion and its guarded form: take what is free, never fail (wconfd.md 5.5)."""

from collections.abc import Callable

import pytest

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]
WANTED = [["node/c", "shared"], ["node/a", "shared"], ["node/b", "shared"]]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_what_is_free_is_taken_and_answered_last_first(
    cluster: Cluster, connect: Callable[[str], Wire], job: Job, dialect: str
) -> None:
    call = connect(dialect)
    call("tryUpdateLocks", job(1), [["node/b", "exclusive"]])

    assert call("opportunisticLockUnion", job(2), WANTED) == ["node/c", "node/a"]
    assert call("opportunisticLockUnion", job(2), WANTED) == []

    assert call("listLocks", job(2)) == [["node/a", "shared"], ["node/c", "shared"]]


def test_the_guarded_form_takes_all_or_too_little_is_nothing(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["node/b", "exclusive"]])

    assert call("guardedOpportunisticLockUnion", 3, job(2), WANTED) == []
    assert call("listLocks", job(2)) == []
    assert call("guardedOpportunisticLockUnion", 2, job(2), WANTED) == ["node/c", "node/a"]


def test_with_a_pending_request_nothing_is_taken(call: Wire, job: Job) -> None:
    call("tryUpdateLocks", job(1), [["node/b", "exclusive"]])
    call("updateLocksWaiting", job(2), 0, [["node/b", "shared"]])

    assert call("opportunisticLockUnion", job(2), WANTED) == []
    assert call("hasPendingRequest", job(2)) is True
