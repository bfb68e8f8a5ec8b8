"""A root with a luxid of the test's making, and the programs run against it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from common.paths import Paths
from tests.cli.command import Ended, run
from tests.cli.fakeluxid import FakeJob, FakeLuxid, fake_luxid
from tests.cli.programhost import ProgramHost


@pytest.fixture
def start_luxid(tmp_path: Path) -> Iterator[Callable[..., FakeLuxid]]:
    """Start a fake luxid with these jobs in the root `tmp_path`."""
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    with ExitStack() as stack:

        def start(*jobs: FakeJob) -> FakeLuxid:
            return stack.enter_context(fake_luxid(paths.query_socket, *jobs))

        yield start


@pytest.fixture(scope="module")
def host() -> ProgramHost:
    """For modules with calls of several programs."""
    return ProgramHost()


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Ended]:
    """Run `gnt-job` against the root `tmp_path`."""

    def run_job(*words: object, **options: Any) -> Ended:
        return run("gnt-job", "--root", tmp_path, *words, **options)

    return run_job
