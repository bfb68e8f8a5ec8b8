"""Durable lock updates through a real wconfd."""

import threading
import time
from pathlib import Path

from common.livelock import Livelock
from common.locks import LockMode, LockRequest, Owner, parse_lock
from protocol.blocking import BlockingClient
from protocol.wconfd import TryUpdateLocks
from tests.support.cluster import Cluster


def lock_updates(cluster: Cluster, count: int, connections: int) -> float:
    """Updates per second, each durable before its answer; every connection takes and releases a lock of its own."""
    livelock = Livelock.create(cluster.paths.livelocks, f"bench{connections}")
    each = count // connections
    threads = [
        threading.Thread(target=_updates, args=(cluster.paths.wconfd_socket, livelock.path, number, each))
        for number in range(connections)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - began
    livelock.remove()
    return connections * each / spent


def _updates(socket: Path, livelock: str, number: int, count: int) -> None:
    owner = Owner(f"bench{number}", livelock)
    lock = parse_lock(f"node/bench{number}")
    with BlockingClient(socket) as client:
        for turn in range(count):
            mode = None if turn % 2 else LockMode.EXCLUSIVE
            assert client.call(TryUpdateLocks(owner, (LockRequest(lock, mode),))) == ()
