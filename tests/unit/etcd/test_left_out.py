"""Tests without an etcd are left out, and whoever runs them hears of it; where one is required, they fail."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import CHECKOUT
from tests.support.etcds import etcd
from tests.support.etcds.etcd import ETCD_SERVER, usable_etcd, without_etcd
from tests.support.etcds.etcdfixtures import leave_out, left_out, refuse_skip


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What a test finds on its machine is not remembered."""
    usable_etcd.cache_clear()
    yield
    usable_etcd.cache_clear()


def program(folder: Path, release: str) -> str:
    path = folder / f"etcd-{release}"
    path.write_text(f"#!/bin/sh\necho 'etcd Version: {release}'\n")
    path.chmod(0o755)
    return str(path)


def test_a_release_that_gantry_refuses_is_no_etcd_for_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANTRY_ETCD", raising=False)
    refused = program(tmp_path, "3.5.1")
    monkeypatch.setattr(etcd, "_INSTALLED", (refused, str(tmp_path / "missing")))

    assert usable_etcd() is None
    assert f"{refused} is 3.5.1, which may lose data in a crash" in without_etcd()
    assert ETCD_SERVER in without_etcd()


def test_the_first_release_that_gantry_accepts_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ETCD", program(tmp_path, "3.5.0"))
    monkeypatch.setattr(etcd, "_INSTALLED", (program(tmp_path, "3.5.16"), program(tmp_path, "3.4.23")))

    found = usable_etcd()

    assert found is not None
    assert found.release == "3.5.16"


def test_a_test_without_an_etcd_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANTRY_ETCD_REQUIRED", raising=False)

    with pytest.raises(pytest.skip.Exception, match="install Debian's etcd-server"):
        leave_out(without_etcd())


def test_it_fails_where_an_etcd_is_required_as_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ETCD_REQUIRED", "1")

    with pytest.raises(pytest.fail.Exception, match="install Debian's etcd-server"):
        leave_out(without_etcd())

    ci = Path(__file__).parents[3] / ".ci" / "run"
    assert "export GANTRY_ETCD_REQUIRED=1" in ci.read_text()


def test_a_test_of_etcd_that_lacks_another_program_fails_there_too() -> None:
    environment = {**os.environ, "GANTRY_ETCD_REQUIRED": "1", "PATH": "/nonexistent"}
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/lease/test_restored_etcd.py"]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )

    assert ran.returncode == 1, ran.stdout
    assert "etcdctl is not installed; install Debian's etcd-server" in ran.stdout
    assert "GANTRY_ETCD_REQUIRED is set" in ran.stdout


def test_other_tests_may_be_skipped_where_an_etcd_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_ETCD_REQUIRED", "1")
    reports = [
        pytest.TestReport("x", ("x", 1, "x"), {}, outcome, ("x", 1, "Skipped: only on Mondays"), "setup")
        for outcome in ("skipped", "passed")
    ]

    refuse_skip(reports[0], ["tmp_path"])
    refuse_skip(reports[1], ["etcd", "etcd_binary"])

    assert [report.outcome for report in reports] == ["skipped", "passed"]


def test_tests_that_were_left_out_are_counted_and_told_with_what_to_do() -> None:
    words = left_out([f"Skipped: {without_etcd()}", f"Skipped: no etcdctl; {ETCD_SERVER}", "Skipped: only on Mondays"])

    assert words.startswith("left out: 2 tests")
    assert "install Debian's etcd-server" in words


def test_other_tests_that_were_left_out_are_no_matter_of_etcd() -> None:
    assert left_out(["Skipped: only on Mondays"]) == ""
    assert left_out([]) == ""
