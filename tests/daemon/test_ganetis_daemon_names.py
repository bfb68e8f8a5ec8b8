"""The program that starts our daemons under the names of Ganeti's (deploy/ganeti/daemon)."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from common.daemons import daemon_named
from protocol.luxi.queries import QueryClusterInfo
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
    text = f'exec {sys.executable} -P -m {daemon_named(name).module} "$@"'
    return start_program(cluster, name, text, *options, as_name=as_name)


def start_program(
    cluster: Cluster, name: str, text: str, *options: str, as_name: str = "", ready_s: str = "300"
) -> subprocess.CompletedProcess[str]:
    """As `start`. Args: text: a script of the shell in the daemon's place. ready_s: limit for its start."""
    programs = cluster.root / "programs"
    programs.mkdir(exist_ok=True)
    ours = programs / f"gantry-{name}"
    ours.write_text(f"#!/bin/sh\n{text}\n")
    ours.chmod(0o755)
    link = programs / f"ganeti-{as_name or name}"
    link.unlink(missing_ok=True)
    link.symlink_to(CHECKOUT / "deploy/ganeti/daemon")
    return subprocess.run(
        [sys.executable, "-IB", str(link), "--root", str(cluster.root), *options],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "GANTRY_PROGRAMS": str(programs), "GANTRY_READY_S": ready_s},
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


def test_luxid_which_tells_of_its_state_before_it_is_ready_is_started_well(idle: Cluster) -> None:
    idle.start("wconfd", "forkserver")

    started = start(idle, "luxid")
    pid = int(idle.paths.pid_file("luxid").read_text())
    try:
        assert (started.returncode, started.stderr) == (0, "")
        assert idle.luxi(QueryClusterInfo())["name"] == "cluster.test"
        assert os.getsid(pid) == pid
    finally:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="luxid has ended")


# sends each of its arguments as one datagram
SAY = (
    "import os, socket, sys; sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
    "address = os.environ['NOTIFY_SOCKET'].replace('@', chr(0), 1); "
    "[sender.sendto(text.encode(), address) for text in sys.argv[1:]]"
)


def say(*states: str) -> str:
    return f'{sys.executable} -c "{SAY}" {shlex.join(states)}'


def test_a_daemon_that_tells_of_its_state_and_then_ends_has_not_started(idle: Cluster) -> None:
    ended = start_program(idle, "luxid", f"{say('STATUS=asks', 'STATUS=READY=1 soon')}; echo gone >&2; exit 11")

    assert (ended.returncode, ended.stderr) == (11, "gone\n")


def test_a_daemon_that_only_tells_of_its_state_is_waited_for_until_the_limit(idle: Cluster) -> None:
    # it ends by itself some time later, so that the test leaves nothing behind
    late = start_program(idle, "luxid", f"{say('STATUS=one', 'STATUS=two')}; exec sleep 6", ready_s="2")

    assert late.returncode == 1
    assert late.stderr == "ganeti-luxid: not ready after 2 s; it goes on starting, its log tells more\n"


def test_readiness_counts_when_other_words_are_in_the_same_datagram(idle: Cluster) -> None:
    started = start_program(idle, "luxid", say("STATUS=one", "STATUS=works\nREADY=1"))

    assert (started.returncode, started.stderr) == (0, "")


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
