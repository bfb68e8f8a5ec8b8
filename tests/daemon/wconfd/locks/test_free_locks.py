"""freeLocks, freeLocksLevel, downGradeLocksLevel, intersectLocks: asking for less never fails (wconfd.md 5.6)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster

Job = Callable[[int], WireOwner]
HELD = [["instance/i", "exclusive"], ["node/a", "exclusive"], ["node/b", "shared"], ["cluster/config", "shared"]]


@pytest.mark.parametrize("dialect", ["ganeti", "jsonrpc"])
@pytest.mark.parametrize(
    ("method", "args", "left"),
    [
        ("freeLocks", [], []),
        ("freeLocksLevel", ["node"], [HELD[0], HELD[3]]),
        # the configuration's lock is not of the level that its name begins with
        ("freeLocksLevel", ["cluster"], HELD),
        ("freeLocksLevel", ["config"], HELD[:3]),
        ("downGradeLocksLevel", ["node"], [HELD[0], ["node/a", "shared"], HELD[2], HELD[3]]),
        ("intersectLocks", [["node/b", "node/unheld", "instance/i"]], [HELD[0], HELD[2]]),
    ],
)
def test_what_is_left(
    cluster: Cluster, connect: Callable[[str], Wire], job: Job, dialect: str, method: str, args: Any, left: Any
) -> None:
    call = connect(dialect)
    call("tryUpdateLocks", job(1), HELD)

    for _ in range(2):
        assert call(method, job(1), *args) == []

    assert call("listLocks", job(1)) == left


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("freeLocks", []),
        ("freeLocksLevel", ["network"]),
        ("downGradeLocksLevel", ["network"]),
        ("intersectLocks", [["node/z"]]),
    ],
)
def test_a_pending_request_is_given_up_whatever_its_level(call: Wire, job: Job, method: str, args: Any) -> None:
    call("tryUpdateLocks", job(1), [["node/a", "exclusive"]])
    call("updateLocksWaiting", job(2), 0, [["node/a", "shared"]])

    assert call(method, job(2), *args) == []

    assert call("hasPendingRequest", job(2)) is False
    call("freeLocks", job(1))
    assert call("listLocks", job(2)) == []


def test_an_unknown_level_is_refused_and_all_are_named(call: Wire, job: Job) -> None:
    with pytest.raises(Refused, match="unknown lock level 'nosuch'; levels are cluster, instance"):
        call("freeLocksLevel", job(1), "nosuch")
