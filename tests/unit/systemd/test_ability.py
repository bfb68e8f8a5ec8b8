"""What `python -m tests.systemd` does on a machine that cannot boot containers."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.package.__main__ as package
import tests.systemd.__main__ as systemd
from tests.systemd.containers import ability
from tests.systemd.containers.prepared import Prepared
from tests.systemd.containers.tree import TREE


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are found; all that are needed are there, and end well. The user is root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv(TREE, str(tmp_path / "kept"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(ability, "_PYTHON", (sys.executable, "-c", ""))
    for name in ("mmdebstrap", "systemd-nspawn", "nsenter", "unshare", "setpriv", "dpkg-deb"):
        _write(folder / name, "exit 0")
    return folder


def _write(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("main", "what"),
    [(systemd.main, "the scenarios under systemd"), (package.main, "the tests of the package")],
    ids=["systemd", "package"],
)
def test_what_is_impossible_is_a_failure_only_where_it_must_be_possible(
    main: Callable[[list[str]], int],
    what: str,
    programs: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert main(["--if-possible"]) == 0
    assert capsys.readouterr().err == f"left out, {what}: only root can boot containers\n"
    assert main([]) == 1
    assert capsys.readouterr().err == f"error: cannot run {what}: only root can boot containers\n"


def test_a_failing_scenario_is_a_failure_also_where_none_must_be_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def fail(arguments: list[str], **_: object) -> int:
        given.extend(arguments)
        return 1

    monkeypatch.setattr(systemd, "why_not_here", lambda _place: None)
    monkeypatch.setattr(Prepared, "make", lambda _place: None)
    monkeypatch.setattr(pytest, "main", fail)

    assert systemd.main(["--if-possible", "-x"]) == 1
    assert given[-2:] == ["-x", "tests/systemd"]


def test_a_machine_without_a_program_is_told_what_to_install(programs: Path, tmp_path: Path) -> None:
    (programs / "systemd-nspawn").unlink()

    assert ability.why_not_here(tmp_path) == "missing: systemd-nspawn; apt-get install mmdebstrap systemd-container"


def test_a_machine_with_another_python_cannot(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ability, "_PYTHON", (sys.executable, "-c", "raise SystemExit(1)"))

    assert "is not Debian 12's Python 3.11" in str(ability.why_not_here(tmp_path))


def test_a_machine_that_reaches_no_server_of_debian_cannot(programs: Path, tmp_path: Path) -> None:
    _write(programs / "mmdebstrap", "exit 25")

    assert ability.why_not_here(tmp_path) == "no Debian can be made here: mmdebstrap ended with exit code 25"


def test_a_machine_on_which_a_container_does_not_start_cannot(programs: Path, tmp_path: Path) -> None:
    _write(programs / "mmdebstrap", 'for tree; do :; done; /bin/mkdir -p "$tree/var/log"')
    _write(programs / "setpriv", "echo 'no name spaces' for you; exit 1")

    said = str(ability.why_not_here(tmp_path))

    assert said.startswith("a Debian without Gantry does not run here: ")
    assert "\n" not in said
    if os.access("/sys/fs/cgroup", os.W_OK):
        assert said.endswith("no name spaces for you")
