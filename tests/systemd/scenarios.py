"""The table of scenarios with their results, at the end of the tests."""

import pytest


class ScenarioTable:
    """A plug-in of pytest."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result, took_s = self._rows.get(report.nodeid, ("ok", 0.0))
        if not report.passed:
            result = "left out" if report.skipped else "FAILED"
        self._rows[report.nodeid] = (result, took_s + report.duration)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("scenarios under systemd")
        for number, (node, (result, took_s)) in enumerate(sorted(self._rows.items()), start=1):
            terminalreporter.write_line(f"{number:3}  {result:8} {took_s:5.0f} s  {_words(node)}")


def _words(node: str) -> str:
    """`…::test_a_job_goes_on[luxid]` -> `a job goes on: luxid`"""
    name, _, parameter = node.rpartition("::")[2].removeprefix("test_").partition("[")
    return name.replace("_", " ") + (f": {parameter.rstrip(']')}" if parameter else "")
