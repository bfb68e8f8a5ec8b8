"""The settings got a fault while the daemons run: they are still shown, and stopped."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Ended, run

UNKNOWN = "'max_running_job' in '[luxid]'"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installation that runs; its settings are good again after each test."""
    root = tmp_path_factory.mktemp("up") / "r"
    assert run("gantry", "--root", root, "up", "--detach").code == 0
    yield root
    (root / "gantry.toml").write_text("")
    run("gantry", "--root", root, "down", "--jobs")


def faulty(root: Path, text: str = "[luxid]\nmax_running_job = 3\n") -> None:
    (root / "gantry.toml").write_text(text)


def gantry(root: Path, *words: str) -> Ended:
    return run("gantry", "--root", root, *words)


def test_status_tells_the_fault_and_the_daemons(root: Path) -> None:
    faulty(root)

    told = gantry(root, "status")
    as_json = gantry(root, "status", "--output", "json")

    assert told.code == 0
    assert told.err.startswith("warning: ")
    assert UNKNOWN in told.err
    assert "luxid       ready" in told.out
    assert UNKNOWN in json.loads(as_json.out)["settings_fault"]


def test_a_monitor_is_warned_of_the_fault(root: Path) -> None:
    faulty(root)

    told = gantry(root, "status", "--check")

    assert told.code == 1
    assert UNKNOWN in told.out


def test_other_commands_refuse_the_file_as_before(root: Path) -> None:
    faulty(root)

    told = gantry(root, "job", "list")

    assert (told.code, told.out) == (2, "")
    assert UNKNOWN in told.err


def test_down_is_refused_where_the_folders_cannot_be_known(root: Path) -> None:
    faulty(root, '[paths]\nrun = "/nowhere\n')

    told = gantry(root, "down")

    assert (told.code, told.out) == (2, "")
    assert "not valid TOML" in told.err


def test_down_stops_the_daemons_and_tells_the_fault(root: Path) -> None:
    faulty(root, "[luxid\n")

    told = gantry(root, "down")

    assert (told.code, told.out) == (0, "down\n")
    assert "not valid TOML" in told.err
    faulty(root, "")
    assert gantry(root, "status").code == 3
    # for the tests after it, whichever they are
    assert gantry(root, "up", "--detach").code == 0
