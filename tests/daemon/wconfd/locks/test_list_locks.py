"""The listings: what is held, by whom, and who waits (wconfd.md 2.1)."""

from collections.abc import Callable

import pytest

from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
def test_each_listing_shows_the_same_table(
    cluster: Cluster, connect: Callable[[str], Wire], job: Job, dialect: str
) -> None:
    call = connect(dialect)
    call("tryUpdateLocks", job(2), [["node/b", "exclusive"], ["cluster/config", "shared"]])
    call("tryUpdateLocks", job(1), [["cluster/config", "shared"]])
    call("updateLocksWaiting", job(3), 5, [["node/b", "shared"], ["node/z", "release"]])
    call("updateLocksWaiting", job(4), -5, [["node/b", "exclusive"]])

    owners = [
        ["node/[lockset]", []],
        ["node/b", [[job(2), "exclusive"]]],
        ["cluster/config", [[job(1), "shared"], [job(2), "shared"]]],
    ]
    assert call("listLocks", job(2)) == [["node/b", "exclusive"], ["cluster/config", "shared"]]
    assert call("listLocks", job(9)) == []
    assert call("listAllLocks") == ["node/[lockset]", "node/b", "cluster/config"]
    assert call("listAllLocksOwners") == owners
    assert call("listLocksWaitingStatus") == [
        owners,
        [
            [-5, job(4), [["node/b", "exclusive"]]],
            [5, job(3), [["node/b", "shared"], ["node/z", "release"]]],
        ],
    ]
    assert [call("hasPendingRequest", job(number)) for number in (1, 2, 3, 4)] == [False, False, True, True]


def test_an_echo_comes_back_as_it_was(call: Wire) -> None:
    assert call("echo", 'é中😀"') == 'é中😀"'


def test_the_locks_of_an_owner_that_sent_its_pid_are_listed_without_it_too(call: Wire, job: Job) -> None:
    """As Ganeti's `gnt-debug wconfd listlocks` asks (wconfd.md 3.1); an id that is a text is another owner's."""
    ident, livelock = job(7)
    call("tryUpdateLocks", [ident, livelock, 4711], [["node/b", "exclusive"]])

    assert call("listLocks", [ident, livelock]) == [["node/b", "exclusive"]]
    assert call("listLocks", [str(ident), livelock]) == []
