"""ReadBlockers: what holds the most real jobs back (DESIGN section 6, "Explain")."""

import os
import signal

import pytest

from common.errors import RemoteError
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.luxi.queue import ReplaceFilter
from protocol.luxi.why import Blocker, Blockers, LongWait, ReadBlockers
from protocol.wconfd.locks import FreeLocks, TryUpdateLocks, UpdateLocksWaiting
from tests.daemon.luxid.ops import after, dummy, gated
from tests.support.cluster import Cluster
from tests.support.stopping import stop
from tests.support.wait import wait_until


def blockers(cluster: Cluster, count: int) -> Blockers:
    """As soon as there are so many."""
    found = cluster.luxi(ReadBlockers())

    def are_told() -> bool:
        nonlocal found
        found = cluster.luxi(ReadBlockers())
        return len(found.blockers) == count and not found.unknown

    wait_until(are_told, what=f"{count} blockers", state=lambda: found)
    return found


def way(wait: LongWait | None) -> list[tuple[str, str]]:
    assert wait is not None
    return [(step.name, step.lock) for step in wait.way]


def brief(blocker: Blocker) -> tuple[str, str, int, int]:
    return blocker.kind.value, blocker.name, blocker.direct, blocker.behind


def test_a_chain_of_locks_a_limit_and_a_paused_job_are_ranked_with_all_behind_them(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    uuid = cluster.luxi(ReplaceFilter(None, 0, (["opcode", ["==", "comment", "paused"]],), "PAUSE", ()))
    root = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(root, status="running")
    middle = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(middle, status="waiting")
    last = cluster.submit(dummy(depends=after(middle)))
    after_last = cluster.submit_many(*[(dummy(depends=after(last)),)] * 3)
    limited = cluster.submit_many(*[(gated(gate) | {"reason": [["gnt:user", "rate-limit:2:disk", 1]]},)] * 4)
    cluster.wait(*limited[:2], status="running")
    (paused,) = cluster.submit_many((dummy(comment="paused"),))

    found = blockers(cluster, 3)

    first, second, third = found.blockers
    assert brief(first) == ("job", str(root), 1, 5)
    assert brief(second) == ("bucket", "2:disk", 2, 2)
    assert (second.job_ids, second.used, second.limit) == (tuple(limited[:2]), 2, 2)
    assert brief(third) == ("pause", uuid, 1, 1)
    assert found.waiting == 1 + 1 + 3 + 2 + 1
    ways = {wait.job_id: way(wait) for wait in found.longest}
    assert list(ways) == [middle, last, *after_last, *limited[2:], paused]
    assert ways[middle] == [(str(root), "node/n1")]
    assert ways[after_last[0]] == [(str(last), ""), (str(middle), ""), (str(root), "node/n1")]
    assert ways[limited[3]] == [("2:disk", "")]

    gate.touch()
    cluster.wait(root, middle, last, *after_last, *limited)
    assert [brief(each) for each in blockers(cluster, 1).blockers] == [("pause", uuid, 1, 1)]


def test_an_owner_that_is_no_job_stands_in_the_chain_as_jobs_do(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    root = cluster.submit(gated(gate) | {"locks": {"node/n1": "exclusive"}})
    cluster.wait(root, status="running")
    livelock = Livelock.create(cluster.paths.livelocks, "me")
    me = Owner("me", livelock.path)
    try:
        cluster.wconf(TryUpdateLocks(me, (LockRequest(parse_lock("instance/i1"), LockMode.SHARED),)))
        cluster.wconf(UpdateLocksWaiting(me, 0, (LockRequest(parse_lock("node/n1"), LockMode.SHARED),)))
        waiter = cluster.submit(gated(gate) | {"locks": {"instance/i1": "exclusive"}})
        cluster.wait(waiter, status="waiting")

        (blocker,) = blockers(cluster, 1).blockers

        assert brief(blocker) == ("job", str(root), 1, 1)
        assert way(blocker.longest) == [("me", "instance/i1"), (str(root), "node/n1")]
        gate.touch()
        cluster.wait(root)
        wait_until(
            lambda: [brief(each) for each in cluster.luxi(ReadBlockers()).blockers] == [("owner", "me", 1, 1)],
            what="the client is the root",
        )
        cluster.wconf(FreeLocks(me))
        assert cluster.wait(waiter) == ["success"]
    finally:
        livelock.remove()


def test_without_wconfd_the_rest_is_told(cluster: Cluster) -> None:
    gate = cluster.root / "gate"
    limited = cluster.submit_many(*[(gated(gate) | {"reason": [["gnt:user", "rate-limit:1:disk", 1]]},)] * 2)
    cluster.wait(limited[0], status="running")
    pid = cluster.daemons["wconfd"].pid
    stop(pid)

    try:
        found = cluster.luxi(ReadBlockers())
    finally:
        os.kill(pid, signal.SIGCONT)

    assert "wconfd gave no answer" in found.unknown
    assert [brief(each) for each in found.blockers] == [("job", str(limited[0]), 1, 1)]
    gate.touch()


def test_a_number_out_of_bounds_is_refused(cluster: Cluster) -> None:
    for most in (0, 31, -1):
        with pytest.raises(RemoteError, match=rf"at most 30 blockers are told, and at least 1; got {most}"):
            cluster.luxi(ReadBlockers(most))
