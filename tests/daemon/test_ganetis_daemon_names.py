"""The program that starts our daemons under the names of Ganeti's (deploy/ganeti/daemon)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import daemon_named
from protocol.wconfd.locks import Echo
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.wait import wait_until


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


def start(cluster: Cluster, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a daemon as Ganeti's daemon-util does: it has the caller's pipes."""
    programs = cluster.root / "programs"
    programs.mkdir(exist_ok=True)
    ours = programs / f"gantry-{name}"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m {daemon_named(name).module} "$@"\n')
    ours.chmod(0o755)
    link = programs / f"ganeti-{name}"
    link.unlink(missing_ok=True)
    link.symlink_to(CHECKOUT / "deploy/ganeti/daemon")
    return subprocess.run(
        [sys.executable, "-IB", str(link), "--root", str(cluster.root), *options],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "GANTRY_PROGRAMS": str(programs)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_returns_when_the_daemon_is_ready_and_leaves_it_in_the_background(idle: Cluster) -> None:
    started = start(idle, "wconfd", "--force-node", "--no-voting", "--yes-do-it")
    pid = int(idle.paths.pid_file("wconfd").read_text())
    try:
        again = start(idle, "wconfd")

        assert (started.returncode, started.stderr) == (0, "")
        assert idle.wconf(Echo("there")) == "there"
        # it survives the end of its caller's session
        assert os.getsid(pid) == pid
        assert again.returncode == 1
        assert again.stderr.startswith("wconfd: error: ")
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="wconfd has ended")


def test_a_daemon_that_cannot_start_tells_why_and_its_exit_code_is_passed_on(idle: Cluster) -> None:
    idle.paths.config_data.unlink()

    started = start(idle, "wconfd")

    assert started.returncode == 1
    assert "there is no cluster configuration" in started.stderr
