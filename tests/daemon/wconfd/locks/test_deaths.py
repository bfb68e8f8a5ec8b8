"""An owner whose process is dead holds nothing, by the event of its death; the sweep is far away (DESIGN section 5)."""

import json
import os
from collections.abc import Callable

from common.system.livelock import Livelock
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster
from tests.support.descriptors import no_descriptors
from tests.support.fakes.durable import durable_locks
from tests.support.wait import wait_until

Job = Callable[[int], WireOwner]
Spawn = Callable[[int], Holder]
Connect = Callable[..., Wire]
N = [["node/n", "exclusive"]]


def test_its_locks_go_to_who_waits_and_nothing_is_left_of_it(
    cluster: Cluster, connect: Connect, job: Job, spawn: Spawn
) -> None:
    call, waiter, dying = connect(), connect(), spawn(1)
    call("tryUpdateLocks", dying.owner, [*N, ["node/m", "shared"]])
    # another owner of the same process
    call("tryUpdateLocks", ["thread", dying.livelock], [["network/w", "shared"]])
    waiter("updateLocksWaiting", job(2), 0, N)
    waiter.send("waitLocks", job(2), 30)

    dying.kill()

    assert waiter.result() is True
    wait_until(lambda: not os.path.exists(dying.livelock), what="its livelock is deleted")
    wait_until(
        lambda: json.loads(durable_locks(cluster.paths.locks_data)) == [[[job(2), N]], []],
        what="the disk names the living alone",
        state=lambda: durable_locks(cluster.paths.locks_data),
    )


def test_a_death_that_cannot_be_probed_frees_its_locks_when_it_can(
    cluster: Cluster, call: Wire, job: Job, spawn: Spawn
) -> None:
    dying = spawn(1)
    call("tryUpdateLocks", dying.owner, N)
    call("tryUpdateLocks", job(2), [["node/m", "shared"]])

    with no_descriptors(cluster.daemons["wconfd"].pid):
        dying.kill()
        wait_until(lambda: "livelock.not_probed" in cluster.log("wconfd"), what="wconfd says that it cannot probe")
        assert call("listLocks", dying.owner) == N

    wait_until(lambda: call("listLocks", dying.owner) == [], what="its locks are free")
    assert call("listLocks", job(2)) == [["node/m", "shared"]]


def test_a_process_of_ganetis_kind_that_waits_is_told(call: Wire, spawn: Spawn) -> None:
    dying, waiter = spawn(1), spawn(2)
    call("tryUpdateLocks", dying.owner, N)
    call("updateLocksWaiting", waiter.owner, 0, N)

    dying.kill()

    assert json.loads(waiter.told())[0] == [[waiter.owner, N]]


def test_an_owner_that_only_waited_is_forgotten(call: Wire, job: Job, spawn: Spawn) -> None:
    dying = spawn(2)
    call("tryUpdateLocks", job(1), N)
    call("updateLocksWaiting", dying.owner, 0, N)

    dying.kill()

    wait_until(lambda: call("hasPendingRequest", dying.owner) is False, what="its request is dropped")
    call("freeLocks", job(1))
    assert call("listAllLocks") == []


def test_a_request_that_is_read_after_the_death_of_its_sender_leaves_nothing(call: Wire, spawn: Spawn) -> None:
    dying = spawn(1)
    dying.kill()

    call("tryUpdateLocks", dying.owner, N)

    wait_until(lambda: call("listAllLocks") == [], what="the lock of the dead is free")


def test_a_livelock_that_does_not_exist_holds_nothing_for_long(call: Wire) -> None:
    call("tryUpdateLocks", [1, "/nowhere/job_000001"], N)

    wait_until(lambda: call("listAllLocks") == [], what="the lock is free")


def test_the_folder_may_be_known_by_another_path(cluster: Cluster, connect: Connect, spawn: Spawn) -> None:
    call, dying = connect(), spawn(1)
    alias = cluster.root / "alias"
    alias.symlink_to(cluster.paths.livelocks)
    call("tryUpdateLocks", [1, str(alias / os.path.basename(dying.livelock))], N)
    assert call("listAllLocks") == ["node/[lockset]", "node/n"]

    dying.kill()

    wait_until(lambda: call("listAllLocks") == [], what="the lock of the dead is free")


def test_who_lives_keeps_its_locks_while_others_die(call: Wire, job: Job, spawn: Spawn) -> None:
    dying = [spawn(number) for number in (2, 3, 4)]
    call("tryUpdateLocks", job(1), N)
    for holder in dying:
        call("tryUpdateLocks", holder.owner, [[f"node/x{holder.owner[0]}", "shared"]])

    for holder in dying:
        holder.kill()

    wait_until(lambda: call("listAllLocks") == ["node/[lockset]", "node/n"], what="the dead hold nothing")
    call("cleanupLocks")
    assert call("listLocks", job(1)) == N


def test_who_died_while_wconfd_was_down_holds_nothing_when_it_is_ready(
    cluster: Cluster, connect: Connect, job: Job, spawn: Spawn
) -> None:
    call, dying = connect(), spawn(1)
    call("tryUpdateLocks", dying.owner, N)
    call("updateLocksWaiting", job(2), 0, N)
    cluster.kill("wconfd")
    dying.kill()

    cluster.start("wconfd")

    call = connect()
    assert call("listAllLocksOwners") == [["node/[lockset]", []], ["node/n", [[job(2), "exclusive"]]]]
    assert not os.path.exists(dying.livelock)


def test_the_sweep_finds_what_no_event_tells_of(idle: Cluster, connect: Connect, job: Job) -> None:
    # the file lies outside of the folder that is watched, and its holder goes without a trace
    outside = idle.root / "outside"
    outside.mkdir()
    livelock = Livelock.create(outside, "job_000001")
    idle.configure("[wconfd]\nsweep_s = 0.02\n")
    idle.start("wconfd")
    call = connect()
    call("tryUpdateLocks", [1, livelock.path], N)
    call("tryUpdateLocks", job(2), [["node/m", "shared"]])

    livelock.remove()

    wait_until(lambda: call("listAllLocks") == ["node/[lockset]", "node/m"], what="the dead hold nothing")
    wait_until(lambda: "sweep.found_dead owners=1" in idle.log("wconfd"), what="the log says so")


def test_a_process_that_dies_before_it_asks_for_anything_leaves_no_livelock(idle: Cluster, spawn: Spawn) -> None:
    before = spawn(1)
    before.kill()
    idle.configure("[wconfd]\nsweep_s = 3600.0\nlivelock_grace_s = 0.0\n")
    idle.start("wconfd")
    assert not os.path.exists(before.livelock)

    dying, living = spawn(2), spawn(3)
    dying.kill()

    wait_until(lambda: not os.path.exists(dying.livelock), what="its livelock is deleted")
    own = [path.name for path in idle.paths.livelocks.glob("wconf-daemon*")]
    assert sorted(os.listdir(idle.paths.livelocks)) == sorted([os.path.basename(living.livelock), *own])
    assert len(own) == 1


def test_a_livelock_that_is_not_locked_yet_is_spared(idle: Cluster, connect: Connect, spawn: Spawn) -> None:
    idle.configure("[wconfd]\nsweep_s = 3600.0\nlivelock_grace_s = 3600.0\n")
    idle.start("wconfd")
    # as Ganeti's programs make theirs: first the file, a moment later the lock
    young = idle.paths.livelocks / "job_000001_1"
    young.touch()
    dying = spawn(2)
    call = connect()
    call("tryUpdateLocks", dying.owner, N)

    dying.kill()
    wait_until(lambda: call("listAllLocks") == [], what="a death that came later is dealt with")
    call("cleanupLocks")

    assert young.exists()
