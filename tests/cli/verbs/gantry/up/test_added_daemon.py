"""A row in `common/daemons.py` is all that a daemon needs to be started, watched, checked and stopped."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import common.daemons
from common.errors import InvalidRequest
from common.paths import Paths
from common.system.running import find_daemon
from tests.cli.command import CHECKOUT, Ended, run
from tests.support.cluster import Cluster
from tests.support.fakes.echod import ROW, add_row, add_to_all
from tests.support.wait import wait_until


@pytest.fixture(autouse=True)
def added_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common.daemons, "DAEMONS", common.daemons.DAEMONS)
    add_row()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """With an empty root, and with a place that tells every program of the row."""
    add_to_all(tmp_path)
    yield tmp_path
    gantry(tmp_path, "down")


def gantry(folder: Path, *words: str) -> Ended:
    path = os.pathsep.join([str(folder), str(CHECKOUT)])
    return run("gantry", "--root", folder / "r", *words, env={"PYTHONPATH": path})


def test_an_added_daemon_is_started_watched_checked_and_stopped_with_the_others(folder: Path) -> None:
    paths = Paths.under_root(folder / "r")
    up = gantry(folder, "up", "--detach")
    running = find_daemon(paths, "echod")
    status = gantry(folder, "status")
    sound = gantry(folder, "cluster", "verify")

    assert [line.split()[0] for line in up.out.splitlines()[1:]] == ["wconfd", "forkserver", "luxid", "echod"]
    assert running is not None
    assert [line.split()[:2] for line in status.out.splitlines()[1:5]][-1] == ["echod", "ready"]
    assert sound.code == 0

    # it is started again when it dies, and its socket is among those looked at
    os.kill(running.pid, signal.SIGKILL)
    wait_until(lambda: _pid(paths) not in (None, running.pid), what="echod is started again")
    # the pid file is there before the socket
    wait_until(lambda: _status_of_echod(folder) == "ready", what="echod is ready again")
    paths.socket("echod").unlink()
    broken = gantry(folder, "cluster", "verify")
    assert broken.code == 1
    assert "echod does not answer" in broken.out

    assert gantry(folder, "down").out == "down\n"
    assert _pid(paths) is None


def _status_of_echod(folder: Path) -> str:
    lines = gantry(folder, "status").out.splitlines()
    return next(line.split()[1] for line in lines if line.startswith("echod"))


def test_a_daemon_left_without_its_supervisor_is_ended_by_down(folder: Path) -> None:
    with Cluster(folder / "r") as cluster:
        cluster.start("echod")
        assert gantry(folder, "down").out == "down\n"
        assert _pid(cluster.paths) is None


def test_its_socket_must_have_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # the names of the others just fit
    root = Path("/" + "r" * (107 - len("/run/socket/gantry-forkserver") - 1))
    Paths.under_root(root).check_socket_paths()
    long = attrs.evolve(ROW, name="longd", socket="gantry-echo-daemon-x")
    monkeypatch.setattr(common.daemons, "DAEMONS", (*common.daemons.DAEMONS, long))

    with pytest.raises(InvalidRequest, match="gantry-echo-daemon-x"):
        Paths.under_root(root).check_socket_paths()


def _pid(paths: Paths) -> int | None:
    running = find_daemon(paths, "echod")
    return running.pid if running else None
