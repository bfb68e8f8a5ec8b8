"""Two candidates for each test, and one etcd for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.etcds.etcd import Etcd
from tests.support.machines.playedpair import PlayedPair


@pytest.fixture
def pair(tmp_path: Path, module_etcd: Etcd) -> Iterator[PlayedPair]:
    with PlayedPair(tmp_path, module_etcd) as pair:
        yield pair
