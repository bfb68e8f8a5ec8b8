"""Durable lock updates, hand-overs and deaths through a real wconfd."""

import os
import select
import signal
import statistics
import time
from pathlib import Path
from typing import Protocol

from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.paths import Paths
from common.system.livelock import Livelock
from daemons.wconfd.core.locks.encoding import encode
from daemons.wconfd.core.locks.table import LockTable
from daemons.wconfd.core.locks.waiting import LockState
from protocol.wconfd.locks import FreeLocks, HasPendingRequest, TryUpdateLocks, UpdateLocksWaiting, WaitLocks
from tests.bench.conversations import SLEEP, Conversation, hold, prepared
from tests.support.cluster import Cluster


class HasPaths(Protocol):
    """A cluster, of any kind."""

    @property
    def paths(self) -> Paths: ...


def lock_updates(cluster: HasPaths, count: int, connections: int, pid: int | None = None) -> float:
    """Updates per second, each durable before its answer; every connection takes and releases a lock of its own.

    Args: pid: of the owners; Ganeti's wconfd wants one.
    """
    livelock = Livelock.create(cluster.paths.livelocks, f"bench{connections}")
    each = count // connections
    conversations = [_updates(livelock.path, number, each, pid) for number in range(connections)]
    began = time.perf_counter()
    hold(cluster.paths.wconfd_socket, conversations)
    spent = time.perf_counter() - began
    livelock.remove()
    return connections * each / spent


def _updates(livelock: str, number: int, count: int, pid: int | None) -> Conversation:
    owner = Owner(f"bench{number}", livelock, pid)
    lock = parse_lock(f"node/bench{number}")
    take, free = (prepared(TryUpdateLocks(owner, (LockRequest(lock, mode),))) for mode in (LockMode.EXCLUSIVE, None))
    for turn in range(count):
        blockers = yield free if turn % 2 else take
        assert blockers == []
    # Ganeti frees the locks of a dead owner after minutes
    if count % 2:
        yield free


def bare_lines(folder: Path, count: int) -> float:
    """Durable lines per second that a loop puts behind each other, where there is room for them already."""
    line = b"x" * 119 + b"\n"
    descriptor = os.open(folder / "bare-lines", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DSYNC, 0o600)
    os.posix_fallocate(descriptor, 0, count * len(line))
    os.fsync(descriptor)
    began = time.perf_counter()
    for number in range(count):
        os.pwrite(descriptor, line, number * len(line))
    spent = time.perf_counter() - began
    os.close(descriptor)
    return count / spent


def update_beside_held(root: Path, held: int, count: int, *, by_itself: bool = False) -> float:
    """Median seconds of a durable update of one lock, while so many others are held.

    Args:
        by_itself: all by the very owner of that lock; otherwise by others, a hundred by each.
    """
    with Cluster(root) as cluster:
        cluster.paths.make_folders()
        livelock = Livelock.create(cluster.paths.livelocks, "bench")
        owner, lock = Owner("bench", livelock.path), parse_lock("node/last")
        table = LockTable()
        for first in range(0, held, 100):
            holder = owner if by_itself else Owner(f"holder{first}", livelock.path)
            locks = {parse_lock(f"node/held{first + number}"): LockMode.SHARED for number in range(100)}
            table = table.set_modes(holder, locks)
        cluster.paths.locks_data.write_bytes(encode(LockState(table)))
        cluster.start("wconfd")
        spent = []
        for turn in range(count):
            began = time.perf_counter()
            mode = None if turn % 2 else LockMode.EXCLUSIVE
            assert cluster.wconf(TryUpdateLocks(owner, (LockRequest(lock, mode),))) == ()
            spent.append(time.perf_counter() - began)
        cluster.stop()
        livelock.remove()
    return statistics.median(spent)


def hand_overs(cluster: HasPaths, count: int, pid: int | None = None) -> float:
    """Times per second that a lock goes from one owner to another who sleeps until it gets it.

    Args: pid: this process; then its owners wait in Ganeti's way, for a SIGHUP.
    """
    livelock = Livelock.create(cluster.paths.livelocks, "bench-hand-over")
    began = time.perf_counter()
    hold(cluster.paths.wconfd_socket, [_take_turns(livelock.path, number, count // 2, pid) for number in range(2)])
    spent = time.perf_counter() - began
    livelock.remove()
    return count / spent


def _take_turns(livelock: str, number: int, count: int, pid: int | None) -> Conversation:
    owner = Owner(f"turns{number}", livelock, pid)
    take = prepared(UpdateLocksWaiting(owner, 0, (LockRequest(parse_lock("node/turns"), LockMode.EXCLUSIVE),)))
    wait, free = prepared(WaitLocks(owner, 30.0)), prepared(FreeLocks(owner))
    asks = prepared(HasPendingRequest(owner))
    for _ in range(count):
        is_granted = not (yield take)
        while not is_granted:
            if pid is None:
                is_granted = yield wait
                assert is_granted
            else:
                yield SLEEP
                is_granted = not (yield asks)
        yield free


def death_to_free(cluster: Cluster, count: int) -> float:
    """Median seconds from the SIGKILL of a lock's holder until another, who sleeps, has the lock."""
    livelock = Livelock.create(cluster.paths.livelocks, "bench-heir")
    heir = Owner("heir", livelock.path)
    spent = [_die(cluster, heir) for _ in range(count)]
    livelock.remove()
    return statistics.median(spent)


def _die(cluster: Cluster, heir: Owner) -> float:
    items = (LockRequest(parse_lock("node/heritage"), LockMode.EXCLUSIVE),)
    pid, path = _fork_holder(cluster.paths.livelocks)
    assert cluster.wconf(TryUpdateLocks(Owner("dying", path), items)) == ()
    assert cluster.wconf(UpdateLocksWaiting(heir, 0, items))
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    assert cluster.wconf(WaitLocks(heir, 30.0))
    spent = time.perf_counter() - began
    os.waitpid(pid, 0)
    cluster.wconf(FreeLocks(heir))
    return spent


def _fork_holder(livelocks: Path) -> tuple[int, str]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, Livelock.create(livelocks, "bench-dying").path.encode())
        select.select([], [], [])
    path = os.read(reader, 4096).decode()
    os.close(reader)
    os.close(writer)
    return pid, path
