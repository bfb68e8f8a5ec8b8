"""What holds for every property test: no judgement by the clock, and the same examples at each run.

With GANTRY_SEED set, to anything, the examples are new ones.

Daemons are forked from a process that has loaded their code, which saves more than half of the suite's time.

Tests in a browser, those that wait for leases to run out, and those that boot containers run only where they are named:
`make test-browser`, `make test-lease`, `make test-package`, `make test-systemd`.

A run ends what its tests have started and left, tells it, and has then failed.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cluster import Cluster
from tests.support.etcds.etcdfixtures import etcd, etcd_binary, left_out, module_etcd, refuse_skip
from tests.support.failurelogs import last_words
from tests.support.leftovers import end_leftovers

CHECKOUT = Path(__file__).resolve().parents[1]
# folders of tests that run only where they are named
NAMED = ("browser", "lease", "package", "systemd")
# what the tests of a run have left, each with its pid
LEFT = pytest.StashKey[list[str]]()
__all__ = ["etcd", "etcd_binary", "module_etcd"]

settings.register_profile(
    "gantry",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="GANTRY_SEED" not in os.environ,
)
settings.load_profile("gantry")
Cluster.FORKS = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent != CHECKOUT / "tests" or collection_path.name not in NAMED:
        return None
    is_named = any(f"tests/{collection_path.name}" in argument for argument in config.invocation_params.args)
    return None if is_named else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a failure tell what its daemons have logged."""
    report = yield
    refuse_skip(report, getattr(item, "fixturenames", ()))
    if report.failed:
        report.sections += last_words()
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no process behind; last, when the processes that run the tests have ended."""
    # pytest's own; None: no test has asked for a folder
    run: Path | None = session.config._tmp_path_factory._basetemp  # type: ignore[attr-defined]
    if run is None or hasattr(session.config, "workerinput"):
        return
    if left := end_leftovers(run):
        session.config.stash[LEFT] = left
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if left := terminalreporter.config.stash.get(LEFT, ()):
        terminalreporter.section("processes that outlived their tests, and were killed", red=True)
        terminalreporter.write("".join(f"{each}\n" for each in left))
    skipped = terminalreporter.stats.get("skipped", [])
    words = left_out(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
    if words:
        terminalreporter.write_line(words, yellow=True)
