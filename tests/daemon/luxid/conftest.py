"""A private installation with the daemons that the tests of luxid need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.fake_wconfd import FakeWconfd


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    """An installation whose luxid and fork server are not started; locks are given out by a fake."""
    with Cluster(tmp_path, settings="[luxid]\nmax_running_jobs = 4\nkill_grace_s = 0.5\n") as cluster:
        cluster.paths.make_folders()
        wconfd = FakeWconfd(cluster.paths.wconfd_socket)
        wconfd.start()
        yield cluster
        cluster.stop()
        wconfd.stop()


@pytest.fixture
def cluster(idle: Cluster) -> Cluster:
    """An installation whose luxid and fork server run."""
    idle.start("forkserver", "luxid")
    return idle
