"""gantry-supervisor as a program of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.clusterinit import create_cluster
from common.daemons import SUPERVISOR_MODULE
from common.paths import Paths
from tests.cli.command import CHECKOUT, environment
from tests.support.leftovers import kill_all_under, processes_under
from tests.support.wait import PATIENCE_S


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    create_cluster(paths, "cluster.test", "node1.test")
    yield tmp_path
    kill_all_under(tmp_path)


def supervise(root: Path, *, prelude: str = "", stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
    code = f"import os, signal\n{prelude}\nfrom {SUPERVISOR_MODULE} import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, "--root", str(root)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=CHECKOUT,
    )


def test_a_signal_that_came_while_it_was_being_executed_stops_it_in_order(root: Path) -> None:
    # as `gantry up` leaves them to it
    blocked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); os.kill(os.getpid(), signal.SIGINT)"

    supervisor = supervise(root, prelude=blocked)
    out, err = supervisor.communicate(timeout=PATIENCE_S)

    assert (supervisor.returncode, out) == (1, "")
    assert err == "error: stopped before all daemons were ready\n"
    assert processes_under(root) == []


def test_it_stops_the_daemons_if_nobody_reads_what_it_tells(root: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    supervisor = supervise(root, stdout=writer)
    os.close(writer)
    _, err = supervisor.communicate(timeout=PATIENCE_S)

    assert (supervisor.returncode, err) == (1, "")
    assert processes_under(root) == []


def test_a_second_one_is_refused_and_the_first_is_left_alone(root: Path) -> None:
    first = supervise(root)
    assert first.stdout is not None
    while not first.stdout.readline().startswith("up;"):
        pass

    second = supervise(root)
    _, err = second.communicate(timeout=PATIENCE_S)
    first.send_signal(signal.SIGTERM)
    _, farewell = first.communicate(timeout=PATIENCE_S)

    assert second.returncode == 1
    assert err.startswith(f"error: already running with pid {first.pid}: it holds ")
    assert (first.returncode, farewell) == (0, "\nstopping; no job runs\n")
    assert processes_under(root) == []
