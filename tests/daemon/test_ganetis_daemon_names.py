"""The program that starts our daemons under the names of Ganeti's (deploy/ganeti/daemon)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from common.daemons import daemon_named
from protocol.wconfd.locks import Echo
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.machines.nodes import HOST
from tests.support.sockets.ports import free_port
from tests.support.wait import PATIENCE_S, wait_until


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


def start(cluster: Cluster, name: str, *options: str, as_name: str = "") -> subprocess.CompletedProcess[str]:
    """Start a daemon as Ganeti's daemon-util does: it has the caller's pipes.

    Args: as_name: Ganeti's name of it; empty: the same.
    """
    programs = cluster.root / "programs"
    programs.mkdir(exist_ok=True)
    ours = programs / f"gantry-{name}"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m {daemon_named(name).module} "$@"\n')
    ours.chmod(0o755)
    link = programs / f"ganeti-{as_name or name}"
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


def test_ganetis_rapi_is_our_rapid_with_ganetis_options(idle: Cluster) -> None:
    port = free_port()
    idle.paths.rapi_users.parent.mkdir()
    idle.paths.rapi_users.write_text("jack abc123 write\n")

    started = start(idle, "rapid", "-b", HOST, "-p", str(port), "--no-ssl", "--require-authentication", as_name="rapi")
    pid = int(idle.paths.pid_file("rapid").read_text())
    try:
        with httpx2.Client(base_url=f"http://{HOST}:{port}", timeout=PATIENCE_S) as client:
            refused, version = client.get("/version"), client.get("/version", auth=("jack", "abc123"))

        assert (started.returncode, started.stderr) == (0, "")
        assert (refused.status_code, version.status_code, version.json()) == (401, 200, 2)
        assert idle.paths.pid_file("rapid").name == "ganeti-rapi.pid"
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="rapid has ended")
