"""SIGKILL at random moments, again and again: what was answered is so (DESIGN section 3, invariants 1, 3 and 5).

The seed is part of each test's name; with another one it can be run by GANTRY_SEED.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import attrs
import pytest

from common.errors import Unavailable
from common.locks import Lock, LockMode, LockRequest, Owner, parse_lock
from common.system.livelock import Livelock
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJob
from protocol.luxi.queries import QueryJobs
from protocol.wconfd.locks import ListLocks, TryUpdateLocks
from tests.support.checked import assert_all_is_free
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps
from tests.support.wait import PATIENCE_S, wait_until

LUXID_ROUNDS = 12
WCONFD_ROUNDS = 8
LONGEST_WAIT_S = 0.03
SEED = int(os.environ.get("GANTRY_SEED", "20260301"))
LOCKS = tuple(parse_lock(f"node/n{number}") for number in range(5))


@attrs.define
class Caller:
    """Calls from a thread of its own, one after the other, until told to stop."""

    stop: threading.Event = attrs.Factory(threading.Event)
    answered: int = 0
    failed: BaseException | None = None

    def count(self) -> None:
        self.answered += 1

    def wait_for_answers(self, count: int) -> None:
        """Wait until so many more have come."""
        enough = self.answered + count
        wait_until(lambda: self.answered >= enough or self.failed, what=f"{enough} answers")

    def check(self) -> None:
        if self.failed is not None:
            raise self.failed


class Submitter(Caller):
    """Submits jobs, each with a comment of its own; never submits one again of which it knows nothing."""

    def __init__(self, cluster: Cluster, stamps: Stamps) -> None:
        super().__init__()
        self._path = cluster.paths.query_socket
        self._stamps = stamps
        # comment -> the id that was answered
        self.ids: dict[str, int] = {}

    def run(self) -> None:
        number = 0
        with BlockingClient(self._path) as client:
            while not self.stop.is_set():
                number += 1
                comment = f"submission {number}"
                op = self._stamps.work(seconds=0, comment=comment)
                try:
                    self.ids[comment] = client.call(SubmitJob((op,)), timeout_s=PATIENCE_S)
                except Unavailable:
                    continue
                self.count()


class Locker(Caller):
    """Changes locks of two owners at random, and keeps what they must hold by what was answered."""

    def __init__(self, cluster: Cluster, owners: tuple[Owner, Owner], chance: random.Random) -> None:
        super().__init__()
        self._path = cluster.paths.wconfd_socket
        self._chance = chance
        self.held: dict[Owner, dict[Lock, LockMode]] = {owner: {} for owner in owners}

    def run(self) -> None:
        with BlockingClient(self._path) as client:
            while not self.stop.is_set():
                owner = self._chance.choice(list(self.held))
                requests = self._requests(owner)
                # delivered again after a crash, whether it was carried out or not
                blocked_on = client.call_retrying(TryUpdateLocks(owner, requests))
                if not blocked_on:
                    self._take_note(owner, requests)
                self.count()

    def _requests(self, owner: Owner) -> tuple[LockRequest, ...]:
        wanted = self._chance.choice([LockMode.SHARED, LockMode.EXCLUSIVE])
        above = [lock for lock in LOCKS if all(lock > held for held in self.held[owner])]
        if not above or self._chance.random() < 0.3:
            return tuple(LockRequest(lock, None) for lock in self.held[owner])
        return (LockRequest(self._chance.choice(above), wanted),)

    def _take_note(self, owner: Owner, requests: tuple[LockRequest, ...]) -> None:
        for request in requests:
            if request.mode is None:
                del self.held[owner][request.lock]
            else:
                self.held[owner][request.lock] = request.mode


@contextmanager
def calling(caller: Submitter | Locker) -> Iterator[None]:
    """Let the caller call; afterwards it has had its last answer."""

    def run() -> None:
        try:
            caller.run()
        except BaseException as error:
            caller.failed = error

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        caller.stop.set()
        thread.join()
    caller.check()


def files_of_jobs(cluster: Cluster) -> list[str]:
    return sorted(path.name for path in cluster.paths.queue.glob("job-*"))


def locks_of(cluster: Cluster, owner: Owner) -> dict[Lock, LockMode]:
    owned = cluster.wconf(ListLocks(owner))
    return dict(owned)


def kill_again_and_again(cluster: Cluster, daemon: str, caller: Caller, chance: random.Random, rounds: int) -> None:
    for _ in range(rounds):
        caller.wait_for_answers(chance.randrange(1, 12))
        # the moment of the crash is the only thing left to chance here
        caller.stop.wait(chance.uniform(0, LONGEST_WAIT_S))
        cluster.restart(daemon)


@pytest.mark.parametrize("seed", [SEED])
def test_each_answered_id_is_one_job_that_ends_however_often_luxid_is_killed(
    cluster: Cluster, stamps: Stamps, seed: int
) -> None:
    submitter = Submitter(cluster, stamps)

    with calling(submitter):
        kill_again_and_again(cluster, "luxid", submitter, random.Random(seed), LUXID_ROUNDS)

    known = {row[0]: row[1][0]["comment"] for row in cluster.luxi_wire(QueryJobs(None, ("id", "ops")))}
    assert len(set(submitter.ids.values())) == len(submitter.ids), "an id was answered twice"
    assert {comment: known.get(job_id) for comment, job_id in submitter.ids.items()} == {
        comment: comment for comment in submitter.ids
    }
    assert max(Counter(known.values()).values()) == 1, "a submission became two jobs"
    assert set(cluster.wait(*known)) == {"success"}
    # who writes does so through temporary files
    wait_until(
        lambda: files_of_jobs(cluster) == sorted(f"job-{job}" for job in known),
        what="only the files of the jobs are there",
        state=lambda: files_of_jobs(cluster),
    )
    stamps.assert_nothing_ran_twice()
    for job_id in known:
        assert stamps.run(job_id).end is not None
    assert_all_is_free(cluster)


@pytest.mark.parametrize("seed", [SEED])
def test_each_answered_lock_update_holds_however_often_wconfd_is_killed(idle: Cluster, seed: int) -> None:
    idle.start("wconfd")
    livelocks = [Livelock.create(idle.paths.livelocks, f"test{number}") for number in (1, 2)]
    first, second = (Owner(f"test{number}", livelock.path) for number, livelock in enumerate(livelocks))
    chance = random.Random(seed)
    locker = Locker(idle, (first, second), random.Random(seed))

    with calling(locker):
        kill_again_and_again(idle, "wconfd", locker, chance, WCONFD_ROUNDS)

    for owner, held in locker.held.items():
        assert locks_of(idle, owner) == held
    idle.restart("wconfd")
    for owner, held in locker.held.items():
        assert locks_of(idle, owner) == held
    for livelock in livelocks:
        livelock.remove()
    assert_all_is_free(idle)
