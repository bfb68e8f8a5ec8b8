"""A private installation with the daemons that the tests of luxid need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster

# every timely effect comes from an event
NO_SWEEP = "sweep_s = 3600.0\n"


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    """An installation of which nothing but wconfd runs."""
    settings = f"[luxid]\nmax_running_jobs = 4\nkill_grace_s = 0.5\n{NO_SWEEP}[wconfd]\n{NO_SWEEP}"
    with Cluster(tmp_path, settings=settings) as cluster:
        cluster.start("wconfd")
        yield cluster


@pytest.fixture
def cluster(idle: Cluster) -> Cluster:
    """An installation whose daemons all run."""
    idle.start("forkserver", "luxid")
    return idle
