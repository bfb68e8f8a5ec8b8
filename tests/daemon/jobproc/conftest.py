"""A fork server of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons.forkserver import JobHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[JobHost]:
    """A running fork server with a lock daemon."""
    host = JobHost(tmp_path, "[luxid]\nkill_grace_s = 0.2\n\n[jobproc]\noutput_max_bytes = 200_000\n")
    try:
        host.start_server()
        yield host
    finally:
        host.close()
