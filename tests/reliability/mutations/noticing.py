"""Runs tests of a checkout by their ids, and tells of each how its call phase ended.

A test notices a missing safeguard by failing itself. A file that cannot be imported, a fixture that breaks, code that
names what does not exist, and a run that does not end prove nothing.

It is a plugin of pytest in the process that runs the tests (`-p`), which writes to the file that REPORT names.
"""

import contextlib
import enum
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

MODULE: Final = "tests.reliability.mutations.noticing"
REPORT: Final = "GANTRY_NOTICED"
# a mutation may make a test wait for ever
PATIENCE_S: Final = 180
# the mutant itself is broken then
_BROKEN: Final = (ImportError, NameError, SyntaxError)


class Ending(enum.Enum):
    """How a test ended."""

    PASSED = "passed"
    # in its call phase: the one that proves something
    FAILED = "failed"
    # before or after its call phase, or since the code is broken
    BROKE = "broke"
    # it was not collected, was skipped, or another one hung
    NOT_RUN = "not run"


# of several parameters the first that is found counts
_BY_WEIGHT: Final = (Ending.FAILED, Ending.BROKE, Ending.PASSED, Ending.NOT_RUN)


@attrs.frozen
class Noticed:
    """How the tests of a run ended."""

    # test id -> how it ended; every test that was asked for
    endings: Mapping[str, Ending]
    # test id -> why it failed or broke, one line
    reasons: Mapping[str, str]

    def which(self, *endings: Ending) -> tuple[str, ...]:
        """The tests that ended so."""
        return tuple(test for test, ending in self.endings.items() if ending in endings)


def run_tests(root: Path, tests: Iterable[str]) -> Noticed:
    """Run these tests, each named by its id, with the code of the checkout at `root`."""
    tests = tuple(dict.fromkeys(tests))
    report = root / ".noticed"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", MODULE, *tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", REPORT: str(report)}
    said = _run(command, root, environment)
    lines = report.read_text().splitlines() if report.exists() else []
    endings, reasons = _read_report([json.loads(line) for line in lines])
    noticed = {test: _worst(test, endings) for test in tests}
    return Noticed(
        {test: Ending.NOT_RUN if worst is None else endings[worst] for test, worst in noticed.items()},
        {test: said if worst is None else reasons[worst] for test, worst in noticed.items()},
    )


def _worst(test: str, endings: Mapping[str, Ending]) -> str | None:
    """Of a test with all its parameters the id of the one that proves most; None: none of them was run."""
    own = [found for found in endings if found == test or found.startswith(f"{test}[")]
    return next((found for ending in _BY_WEIGHT for found in own if endings[found] is ending), None)


def _run(command: list[str], root: Path, environment: dict[str, str]) -> str:
    """Why a test was not run, if one was not."""
    # a group of its own: nothing of a run that hangs is left
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return f"not over after {PATIENCE_S} s"
    lines = printed.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
    return f"pytest ended with {process.returncode}: {lines[-1]}"


def _read_report(phases: Iterable[Mapping[str, str]]) -> tuple[dict[str, Ending], dict[str, str]]:
    """Lines of the report, in the order of the phases -> how each test ended, and why."""
    endings: dict[str, Ending] = {}
    reasons: dict[str, str] = {}
    for phase in phases:
        test, ending = phase["test"], Ending(phase["ending"])
        # the outcome of a test's call phase stands; later phases do not change it
        if endings.get(test, Ending.PASSED) is Ending.PASSED:
            endings[test] = ending
            reasons[test] = phase["reason"]
    return endings, reasons


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Write down how a phase of a test ended."""
    report: pytest.TestReport = yield
    if report.when != "setup" or not report.passed:
        error = call.excinfo.value if call.excinfo is not None else None
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200] if error is not None else ""
        line = {"test": item.nodeid, "ending": _ending(report, error).value, "reason": reason}
        with open(os.environ[REPORT], "a") as stream:
            print(json.dumps(line), file=stream)
    return report


def _ending(report: pytest.TestReport, error: BaseException | None) -> Ending:
    if report.passed:
        return Ending.PASSED
    if report.skipped:
        return Ending.NOT_RUN
    return Ending.FAILED if report.when == "call" and not isinstance(error, _BROKEN) else Ending.BROKE
