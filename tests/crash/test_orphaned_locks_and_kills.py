"""wconfd is killed again and again while owners have their locks kept, die, and are followed by heirs or by a word.

A tally knows what runs: a command begins when wconfd has acknowledged it, and has ended before anybody says so.
Nobody may get the lock while the command runs (DESIGN sections 13 and 14).
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.blocking import BlockingClient
from protocol.messages import Request
from protocol.wconfd.locks import (
    AdoptLocks,
    CommandOnNode,
    FreeLocks,
    KeepLocks,
    ListAllLocks,
    ListLocks,
    ListOrphanedLocks,
    ReleaseKeptLocks,
    UpdateLocksWaiting,
    WaitLocks,
)
from tests.support.cluster import Cluster
from tests.support.wait import PATIENCE_S, wait_until

R = TypeVar("R")
NODE = parse_lock("node/n")
KILLS = 5
ROUNDS = 12
DRIVERS = 3


class Tally:
    """What runs on the node, and the calls so far."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.seen_together: list[set[str]] = []
        self.begun = 0
        self.has_failed = False
        self._calls = 0
        self._is_death_wanted = self._has_died = False
        self._changed = threading.Condition()

    def begins(self, key: str) -> None:
        with self._changed:
            self.begun += 1
            self.running.add(key)
            if len(self.running) > 1:
                self.seen_together.append(set(self.running))

    def ends(self, key: str) -> None:
        with self._changed:
            self.running.discard(key)

    def calls(self) -> None:
        with self._changed:
            self._calls += 1
            self._changed.notify_all()

    def wait_for_calls(self, count: int) -> None:
        """Return in the middle of a call, this many after now."""
        with self._changed:
            until = self._calls + count
            self._changed.wait_for(lambda: self._calls >= until or self.has_failed, PATIENCE_S)

    def dies(self) -> None:
        """A process with a command on a node has died; return when the kill that waits for that is over."""
        with self._changed:
            if self._is_death_wanted:
                self._has_died = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._is_death_wanted, PATIENCE_S)

    @contextmanager
    def in_a_death(self) -> Iterator[None]:
        """Within this context a process with a command on a node is dead, and nobody has followed it."""
        with self._changed:
            self._is_death_wanted, self._has_died = True, False
            self._changed.wait_for(lambda: self._has_died or self.has_failed, PATIENCE_S)
        yield
        with self._changed:
            self._is_death_wanted = False
            self._changed.notify_all()

    def fails(self) -> None:
        with self._changed:
            self.has_failed = True
            self._changed.notify_all()


class Driver:
    """The processes of jobs, one after the other, and what watches over their commands."""

    def __init__(self, cluster: Cluster, tally: Tally, number: int) -> None:
        self._folder = cluster.paths.livelocks
        self._client = BlockingClient(cluster.paths.wconfd_socket)
        self._tally = tally
        self._number = number
        self._chance = random.Random(number)

    def run(self) -> None:
        with self._client:
            for turn in range(ROUNDS):
                self._live(JobId(100 * self._number + turn))

    def _live(self, job_id: JobId) -> None:
        livelock = self._livelock(job_id)
        owner = Owner(job_id, livelock.path)
        key = f"{job_id}.0.1"
        self._take(owner)
        self._call(KeepLocks(owner, (CommandOnNode("web2", key),)))
        self._tally.begins(key)
        # the process is killed, and maybe its heir too
        livelock.remove()
        self._tally.dies()
        for _ in range(self._chance.randrange(3)):
            livelock = self._livelock(job_id)
            owner = Owner(job_id, livelock.path)
            assert self._call(AdoptLocks(owner)) == ((NODE, LockMode.EXCLUSIVE),)
            if self._chance.random() < 0.5:
                break
            livelock.remove()
        self._tally.ends(key)
        if livelock.fd >= 0 and self._chance.random() < 0.5:
            self._call(FreeLocks(owner))
        else:
            self._call(ReleaseKeptLocks((key,), "node web2: ended"))
        livelock.remove()

    def _take(self, owner: Owner) -> None:
        self._call(UpdateLocksWaiting(owner, 0, (LockRequest(NODE, LockMode.EXCLUSIVE),)))
        until = time.monotonic() + PATIENCE_S
        while not self._call(WaitLocks(owner, 1.0)):
            assert not self._tally.has_failed, "another driver has failed"
            assert time.monotonic() < until, self._client.call(ListOrphanedLocks())
        assert self._call(ListLocks(owner)) == ((NODE, LockMode.EXCLUSIVE),)
        # a command that still runs is not ours
        assert not self._tally.running, self._tally.running

    def _call(self, request: Request[R]) -> R:
        self._tally.calls()
        return self._client.call_retrying(request)

    def _livelock(self, job_id: JobId) -> Livelock:
        return Livelock.create(self._folder, f"job_{job_id:06}")


@contextmanager
def driven(cluster: Cluster, tally: Tally) -> Iterator[list[threading.Thread]]:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            Driver(cluster, tally, number).run()
        except BaseException as error:
            failures.append(error)
            tally.fails()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, DRIVERS + 1)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def test_no_lock_is_free_while_what_its_guard_stands_for_runs(idle: Cluster) -> None:
    idle.start("wconfd")
    tally, chance = Tally(), random.Random(7)

    with driven(idle, tally):
        for turn in range(KILLS):
            tally.wait_for_calls(chance.randrange(10, 30))
            with tally.in_a_death() if turn % 2 else nullcontext():
                idle.restart("wconfd")

    assert tally.begun == ROUNDS * DRIVERS
    assert tally.seen_together == []
    wait_until(
        lambda: idle.wconf(ListAllLocks()) == (), what="all is free", state=lambda: idle.wconf(ListOrphanedLocks())
    )
