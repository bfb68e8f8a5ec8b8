"""A wconfd that runs, owners that live, and connections to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.system.livelock import Livelock
from tests.daemon.wconfd.holder import Holder
from tests.daemon.wconfd.wire import Wire, WireOwner
from tests.support.cluster import Cluster

# what happens in time must not be the work of the backstop
NO_SWEEP = "[wconfd]\nsweep_s = 3600.0\n"


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    """An installation whose wconfd is not started."""
    with Cluster(tmp_path, settings=NO_SWEEP) as cluster:
        cluster.paths.make_folders()
        yield cluster


@pytest.fixture
def cluster(idle: Cluster) -> Cluster:
    """An installation whose wconfd runs."""
    idle.start("wconfd")
    return idle


@pytest.fixture
def job(idle: Cluster) -> Iterator[Callable[[int], WireOwner]]:
    """`job(7)`: the owner of that job, which lives until the end of the test."""
    livelocks: dict[int, Livelock] = {}

    def owner(number: int) -> WireOwner:
        if number not in livelocks:
            livelocks[number] = Livelock.create(idle.paths.livelocks, f"job_{number:06}")
        return [number, livelocks[number].path]

    yield owner
    for livelock in livelocks.values():
        livelock.remove()


@pytest.fixture
def connect(idle: Cluster) -> Iterator[Callable[..., Wire]]:
    """`connect()`: one more connection; its dialect may be named."""
    wires: list[Wire] = []

    def open_wire(dialect: str = "ganeti") -> Wire:
        wires.append(Wire(idle.paths.wconfd_socket, dialect))
        return wires[-1]

    yield open_wire
    for wire in wires:
        wire.close()


@pytest.fixture
def call(cluster: Cluster, connect: Callable[..., Wire]) -> Wire:
    return connect()


@pytest.fixture
def spawn(idle: Cluster) -> Iterator[Callable[[int], Holder]]:
    """`spawn(7)`: the process of that job, with a livelock of its own; killed at the end."""
    holders: list[Holder] = []

    def start(number: int) -> Holder:
        holders.append(Holder.start(idle.paths, number))
        return holders[-1]

    yield start
    for holder in holders:
        holder.kill()
