"""Orphaned locks: those of a dead owner stay while its command may still run (`protocol.wconfd.locks`)."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Refused, Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.descriptors import no_descriptors
from tests.support.wait import wait_until

Job = Callable[[int], WireOwner]
Spawn = Callable[[int], Holder]
Connect = Callable[..., Wire]
N, M = ["node/n", "exclusive"], ["node/m", "shared"]
COMMAND = ["web2", "1.0.1"]


def kept(call: Wire, dying: Holder, *commands: list[str]) -> WireOwner:
    """The owner of this process, which holds `node/n`."""
    call("tryUpdateLocks", dying.owner, [N])
    assert call("guardLocks", dying.owner, list(commands or [COMMAND])) == []
    return dying.owner


def killed(call: Wire, dying: Holder) -> None:
    dying.kill()
    wait_until(lambda: [row[0][1] for row in call("listGhosts")] == [dying.livelock], what="it is an orphan")


def ghost_file(cluster: Cluster) -> list[Any]:
    rows: list[Any] = json.loads(cluster.paths.may_run_data.read_bytes())["guarded"]
    return rows


def test_an_orphan_keeps_its_locks_over_restarts_until_its_last_command_has_ended(
    cluster: Cluster, connect: Connect, job: Job, spawn: Spawn
) -> None:
    call, dying = connect(), spawn(1)
    owner = kept(call, dying, COMMAND, ["web3", "1.1.1"])
    call("updateLocksWaiting", job(2), 0, [N])
    before = time.time()

    killed(call, dying)

    [[orphan, since, ends_at, commands, locks]] = call("listGhosts")
    assert (orphan, ends_at, commands, locks) == (owner, None, [COMMAND, ["web3", "1.1.1"]], [N])
    assert before <= since <= time.time()
    assert call("listAllLocksOwners") == [["node/[lockset]", []], ["node/n", [[owner, "exclusive"]]]]
    assert os.path.exists(dying.livelock)

    cluster.kill("wconfd")
    cluster.start("wconfd")
    call = connect()
    assert call("listGhosts") == [[owner, since, None, commands, locks]]
    call("layGuards", ["1.1.1", "9.9.9"], "node web3: ended")
    call("layGuards", ["1.1.1"], "node web3: ended")
    assert call("listLocks", job(2)) == []
    assert ghost_file(cluster)[0][1] == [COMMAND]

    call("layGuards", ["1.0.1"], "node web2: ended")

    assert call("listLocks", job(2)) == [N]
    assert call("listGhosts") == []
    call("layGuards", ["1.0.1"], "node web2: ended")
    wait_until(lambda: ghost_file(cluster) == [], what="nothing is left of it in the file")
    assert 'kept_locks.released owner=job/1 word="node web2: ended"' in cluster.log("wconfd")


def test_its_pending_request_is_dropped_with_it(call: Wire, job: Job, spawn: Spawn) -> None:
    dying = spawn(1)
    kept(call, dying)
    call("tryUpdateLocks", job(2), [["node-res/m", "exclusive"]])
    call("updateLocksWaiting", dying.owner, 0, [["node-res/m", "shared"]])

    killed(call, dying)

    assert call("listLocksWaitingStatus")[1] == []
    call("freeLocks", job(2))
    assert call("listLocks", dying.owner) == [N]


def test_a_new_process_of_the_job_adopts_what_the_orphan_holds(
    cluster: Cluster, call: Wire, connect: Connect, job: Job, spawn: Spawn
) -> None:
    dying, heir = spawn(1), spawn(1)
    kept(call, dying)
    call("tryUpdateLocks", dying.owner, [["node-res/m", "shared"]])
    call("updateLocksWaiting", job(2), 0, [N])
    events = connect()
    events("subscribe")
    dying.kill()

    # without a pause: the caller may know of the death before wconfd does
    adopted = call("adoptLocks", heir.owner)

    assert adopted == call("adoptLocks", heir.owner) == [N, ["node-res/m", "shared"]]
    assert call("listGhosts") == []
    assert call("listLocks", dying.owner) == call("listLocks", job(2)) == []
    assert [row[1:] for row in ghost_file(cluster) if row[0][1] == heir.livelock] == [[[COMMAND], None]]
    told = [events.reply() for _ in range(4)]
    assert [each["method"] for each in told] == ["locksChanged", "ghostsChanged"] * 2
    assert [len(each["params"][0]) for each in told[1::2]] == [1, 0]

    killed(call, heir)
    call("layGuards", ["1.0.1"], "node web2: ended")
    assert call("listLocks", job(2)) == [N]


def test_nothing_is_adopted_while_an_earlier_process_of_the_job_lives(call: Wire, spawn: Spawn) -> None:
    living, heir = spawn(1), spawn(1)
    kept(call, living)

    with pytest.raises(
        Refused, match=f"an earlier process of job/1 still has locks, with the livelock '{living.livelock}'"
    ):
        call("adoptLocks", heir.owner)

    assert call("listLocks", living.owner) == [N]
    assert call("adoptLocks", living.owner) == [N]


def test_a_living_owner_that_frees_its_locks_has_no_guards_any_more(call: Wire, spawn: Spawn) -> None:
    dying = spawn(1)
    kept(call, dying)
    call("tryUpdateLocks", dying.owner, [["node-res/m", "shared"]])
    call("freeLocksLevel", dying.owner, "node-res")
    call("freeLocks", dying.owner)
    call("tryUpdateLocks", dying.owner, [M])

    dying.kill()

    wait_until(lambda: call("listAllLocks") == [], what="its locks are free")


def test_guards_outlast_a_release_of_some_locks(call: Wire, spawn: Spawn) -> None:
    dying = spawn(1)
    kept(call, dying)
    call("tryUpdateLocks", dying.owner, [["node-res/m", "shared"]])
    call("freeLocksLevel", dying.owner, "node")

    killed(call, dying)

    assert call("listLocks", dying.owner) == [["node-res/m", "shared"]]


def test_a_guard_without_locks_is_refused(call: Wire, job: Job) -> None:
    with pytest.raises(Refused, match="job/1 holds no lock that a command could keep; take the locks first"):
        call("guardLocks", job(1), [COMMAND])


def test_a_new_master_raises_what_it_is_told_of_before_others_get_it(
    cluster: Cluster, call: Wire, job: Job, spawn: Spawn
) -> None:
    living = spawn(3)
    kept(call, living, ["web1", "3.0.1"])
    claims = [
        [[1, "/old/job_1"], [["node/x", "exclusive"], M], [COMMAND]],
        # another owner's lock is in its way
        [[2, "/old/job_2"], [N], [["web2", "2.0.1"]]],
        # known, and alive
        [living.owner[:2], [N], [["web1", "3.0.1"]]],
    ]

    assert call("raiseGhosts", claims) == [[2, "/old/job_2"]]
    assert call("raiseGhosts", claims) == [[2, "/old/job_2"]]

    [[orphan, _, _, commands, locks]] = call("listGhosts")
    assert (orphan, commands, locks) == ([1, "/old/job_1"], [COMMAND], [M, ["node/x", "exclusive"]])
    assert call("tryUpdateLocks", job(4), [["node/x", "shared"]]) == [[1, "/old/job_1"]]
    assert call("adoptLocks", job(1)) == [M, ["node/x", "exclusive"]]


def test_an_orphan_whose_time_is_over_is_freed(idle: Cluster, connect: Connect, job: Job, spawn: Spawn) -> None:
    idle.configure("[wconfd]\nsweep_s = 3600.0\nghost_s = 0.3\n")
    idle.start("wconfd")
    call, dying = connect(), spawn(1)
    kept(call, dying)
    call("updateLocksWaiting", job(2), 0, [N])

    dying.kill()

    assert call("waitLocks", job(2), 30) is True
    assert call("listGhosts") == []
    wait_until(lambda: "orphaned_locks.expired owner=job/1 ghost_s=0.3" in idle.log("wconfd"), what="the log says so")


def test_a_livelock_that_cannot_be_probed_is_no_verdict_for_a_claim(cluster: Cluster, call: Wire, spawn: Spawn) -> None:
    living = spawn(1)
    call("listGhosts")
    with (
        no_descriptors(cluster.daemons["wconfd"].pid),
        pytest.raises(Refused, match="cannot be probed now; repeat the call"),
    ):
        call("raiseGhosts", [[living.owner[:2], [N], [COMMAND]]])

    assert call("listGhosts") == call("listAllLocks") == []


def test_without_guards_there_is_no_file(cluster: Cluster, call: Wire, spawn: Spawn) -> None:
    dying = spawn(1)
    call("tryUpdateLocks", dying.owner, [N])
    dying.kill()
    wait_until(lambda: call("listAllLocks") == [], what="its locks are free")

    cluster.stop()

    assert not cluster.paths.may_run_data.exists()
