"""Three daemons without backstops: every effect here comes from an event."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checked import checked_cluster
from tests.support.cluster import Cluster
from tests.support.stamps import Stamps


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    """An installation that is not started."""
    with checked_cluster(tmp_path / "root") as cluster:
        yield cluster


@pytest.fixture
def cluster(idle: Cluster) -> Cluster:
    """An installation that runs."""
    idle.start()
    return idle


@pytest.fixture
def stamps(tmp_path: Path) -> Stamps:
    return Stamps(tmp_path / "stamps")
