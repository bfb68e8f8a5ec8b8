"""The disk names exactly the living owners; an event frees the locks of a dead one (DESIGN section 5)."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import orjson

from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock, is_alive
from protocol.luxi.jobs import CancelJob
from protocol.wconfd.locks import CleanupLocks, ListAllLocksOwners, ListLocks, TryUpdateLocks, UpdateLocksWaiting
from tests.support.checked import assert_all_is_free, job_on_disk
from tests.support.cluster import Cluster
from tests.support.fakes.durable import durable_locks
from tests.support.stamps import Stamps
from tests.support.wait import wait_until

NODE = parse_lock("node/n1")
EXCLUSIVE = {"node/n1": "exclusive"}
# succeeds if the durable locks name the job that runs it; the journal first: what it has no more, is in the new file
AM_I_NAMED = 'grep -q "\\[$GANTRY_JOB_ID,\\"" $GANTRY_DATA_DIR/locks.data.journal $GANTRY_DATA_DIR/locks.data'


def livelocks_on_disk(cluster: Cluster) -> set[str]:
    """The livelocks of all owners that the disk names, whether they hold or wait."""
    held, pending = orjson.loads(durable_locks(cluster.paths.locks_data))
    return {owner[1] for owner, _ in held} | {owner[1] for _, owner, _ in pending}


def wait_until_unnamed(cluster: Cluster, livelock: str) -> None:
    wait_until(lambda: livelock not in livelocks_on_disk(cluster), what=f"the owner by {livelock} is freed")


@contextmanager
def sampling(cluster: Cluster) -> Iterator[set[str]]:
    """Read the durable locks over and over: who is named lives, or is named no longer soon. Gives all who were."""
    done = threading.Event()
    seen: set[str] = set()
    failures: list[BaseException] = []

    def sample() -> None:
        try:
            while not done.is_set():
                for path in livelocks_on_disk(cluster):
                    seen.add(path)
                    if not is_alive(path):
                        wait_until_unnamed(cluster, path)
        except BaseException as error:
            failures.append(error)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield seen
    finally:
        done.set()
        sampler.join()
    assert not failures


def kill_process(cluster: Cluster, job_id: int) -> None:
    """SIGKILL of a job's process, if it has one, but not of its command."""
    if pid := job_on_disk(cluster, job_id).process_id:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def owner_of(cluster: Cluster, job_id: int) -> Owner:
    livelock = job_on_disk(cluster, job_id).livelock
    assert livelock
    return Owner(job_id, livelock)


def test_dead_owners_leave_the_file_at_once_and_living_ones_are_always_in_it(cluster: Cluster) -> None:
    chance = random.Random(7)
    jobs = [
        cluster.submit(
            {
                "OP_ID": "OP_RUN_COMMAND",
                "argv": ["/bin/sh", "-c", f"for i in 1 2 3 4 5 6; do {AM_I_NAMED} || exit 9; sleep 0.03; done"],
                "locks": {f"node/n{chance.randrange(4)}": chance.choice(["shared", "exclusive"])},
            }
        )
        for _ in range(24)
    ]
    victims = chance.sample(jobs, 8)

    with sampling(cluster) as seen:
        for number, job_id in enumerate(victims):
            kill_process(cluster, job_id) if number % 2 else cluster.luxi(CancelJob(JobId(job_id), kill=True))
        states = cluster.wait(*jobs)

    survivors = [job_id for job_id in jobs if job_id not in victims]
    assert [states[jobs.index(job_id)] for job_id in survivors] == ["success"] * 16
    assert seen
    assert_all_is_free(cluster)


def test_an_owner_that_is_killed_loses_held_and_wanted_locks_by_an_event(idle: Cluster) -> None:
    idle.start("wconfd")
    waiter = Livelock.create(idle.paths.livelocks, "waiter")
    pid, dying = _forked_owner(idle)
    idle.wconf(TryUpdateLocks(dying, (LockRequest(NODE, LockMode.EXCLUSIVE),)))
    wanting = Owner("waiter", waiter.path)
    assert idle.wconf(UpdateLocksWaiting(wanting, 0, (LockRequest(NODE, LockMode.EXCLUSIVE),))) == (dying,)

    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    wait_until(lambda: idle.wconf(ListLocks(wanting)), what="the lock is handed over")
    assert livelocks_on_disk(idle) == {waiter.path}
    waiter.remove()
    assert_all_is_free(idle)


def _forked_owner(cluster: Cluster) -> tuple[int, Owner]:
    """A process that holds a livelock and does nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, os.fsencode(Livelock.create(cluster.paths.livelocks, "dying").path))
        signal.pause()
        os._exit(0)
    livelock = os.read(reading, 4096)
    os.close(reading)
    os.close(writing)
    return pid, Owner("dying", os.fsdecode(livelock))


def test_locks_of_a_killed_job_are_held_until_its_command_ends(cluster: Cluster, stamps: Stamps) -> None:
    job_id = cluster.submit(stamps.gated("gate", locks=EXCLUSIVE))
    wait_until(lambda: stamps.runs(job_id), what="the command runs")
    owner = owner_of(cluster, job_id)
    second = cluster.submit(stamps.work(locks=EXCLUSIVE))
    cluster.wait(second, status="waiting")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid

    os.kill(pid, signal.SIGKILL)
    # looks at every owner before it answers
    cluster.wconf(CleanupLocks())

    assert cluster.status(job_id) == "running"
    owners = cluster.wconf(ListAllLocksOwners())
    assert dict(owners)[NODE] == ((owner, LockMode.EXCLUSIVE),)
    stamps.open_gate("gate")
    assert cluster.wait(job_id, second) == ["error", "success"]
    stamps.assert_in_order(job_id, second)
    assert_all_is_free(cluster)


def test_locks_of_a_killed_job_outlast_a_restart_of_both_daemons(cluster: Cluster, stamps: Stamps) -> None:
    job_id = cluster.submit(stamps.gated("gate", locks=EXCLUSIVE))
    wait_until(lambda: stamps.runs(job_id), what="the command runs")
    second = cluster.submit(stamps.work(locks=EXCLUSIVE))
    cluster.wait(second, status="waiting")
    pid = job_on_disk(cluster, job_id).process_id
    assert pid

    os.kill(pid, signal.SIGKILL)
    cluster.restart("wconfd")
    cluster.restart("luxid")

    assert cluster.status(job_id) == "running"
    stamps.open_gate("gate")
    assert cluster.wait(job_id, second) == ["error", "success"]
    stamps.assert_in_order(job_id, second)
    assert_all_is_free(cluster)
