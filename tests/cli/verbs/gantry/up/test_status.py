"""`gantry status` for somebody who may not see everything."""

import socket
from pathlib import Path
from typing import NoReturn

import pytest

import cli.gantry.status
from cli.gantry import status
from cli.gantry.main import group
from cli.program import exit_code
from common.paths import Paths
from tests.cli.fakeluxid import FakeJob, fake_luxid


def _refuse(*_: object) -> NoReturn:
    raise PermissionError(13, "Permission denied")


@pytest.fixture(autouse=True)
def hidden_pid_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pid files that this user may not read; for root there is no such file."""
    monkeypatch.setattr(status, "find_daemon", _refuse)
    monkeypatch.setattr(cli.gantry.status, "find_supervisor", _refuse)


def test_a_daemon_that_answers_is_ready_though_its_pid_file_is_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    with fake_luxid(paths.query_socket, FakeJob(5)):
        code = exit_code(group, "gantry", ["--root", str(tmp_path), "status"])

    shown = capsys.readouterr()
    assert code == 0
    assert (
        shown.out
        == """\
DAEMON      STATE    PID  SINCE
wconfd      unknown    -  -
forkserver  unknown    -  -
luxid       ready      -  -
queue: 1 queued
"""
    )
    assert shown.err == (f"whether wconfd and forkserver run is told to root and to the owner of '{tmp_path}/run'\n")


def test_without_an_answer_of_luxid_nothing_is_known_and_that_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Paths.under_root(tmp_path).make_folders()

    code = exit_code(group, "gantry", ["--root", str(tmp_path), "status"])

    assert code == 3
    assert capsys.readouterr().err == (
        f"error: wconfd, forkserver, luxid are not reached, and this user may not read the pid files in "
        f"'{tmp_path}/run'; ask to be in the group of '{tmp_path}/run/socket', or try as its owner\n"
    )


def test_a_daemon_that_is_silent_is_told_of_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "ANSWER_S", 0.1)
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    with socket.socket(socket.AF_UNIX) as stopped:
        # the kernel takes connections for it
        stopped.bind(str(paths.query_socket))
        stopped.listen()
        code = exit_code(group, "gantry", ["--root", str(tmp_path), "status"])

    shown = capsys.readouterr()
    assert code == 3
    assert "luxid       silent     -" in shown.out
    assert shown.err.startswith("error: luxid gave no answer for 0.1 s; is it stopped, or its disk? ")
