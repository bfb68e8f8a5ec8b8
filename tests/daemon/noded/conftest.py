"""A node whose daemon runs: one for all tests of a module, or one that a test may ruin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.nodes import Node


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as node:
        node.start()
        yield node


@pytest.fixture
def node(shared: Node) -> Node:
    """The node of the module, with its caller as the only candidate."""
    shared.set_candidates(shared.client_pem)
    return shared


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as node:
        yield node


@pytest.fixture
def own(idle: Node) -> Node:
    idle.start()
    return idle
