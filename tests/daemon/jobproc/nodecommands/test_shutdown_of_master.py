"""The machine of the master is shut down while commands of its jobs run on a node: DESIGN sections 13 and 14."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.jobproc.nodecommands.jobs import output_of, shell
from tests.daemon.jobproc.nodecommands.test_take_up import pid_of
from tests.support.fakes import endingmachine
from tests.support.machines.fleet import Fleet, FleetNode
from tests.support.wait import wait_until


@pytest.fixture
def first(fleet: Fleet) -> Iterator[Path]:
    """The file with the name of the first process of the master's machine."""
    file = fleet.master.root / endingmachine.NAME
    file.write_text("systemd\n")
    fleet.master.modules["forkserver"] = endingmachine.__name__
    fleet.master.restart("forkserver", signal.SIGTERM)
    yield file
    del fleet.master.modules["forkserver"]
    fleet.master.restart("forkserver", signal.SIGTERM)


def test_a_job_process_leaves_at_once_and_the_command_is_taken_up_and_ends_its_job(
    fleet: Fleet, node: FleetNode, first: Path
) -> None:
    root = node.cluster.root
    script = f"echo x >> {root}/tally-shutdown; until [ -e {root}/open-shutdown ]; do sleep 0.02; done; echo over"
    job = fleet.master.submit(shell(script))
    wait_until((root / "tally-shutdown").exists, what="the command runs")
    ended = pid_of(fleet, job)

    first.write_text("systemd-shutdow\n")
    os.kill(ended, signal.SIGTERM)

    # luxid, which is not ended here, finds the job without a process
    wait_until(lambda: pid_of(fleet, job) != ended, what="another process has the job", state=lambda: ended)
    # luxid hears of it before the fork server has reaped it
    wait_until(lambda: not Path(f"/proc/{ended}").exists(), what="the first process is gone")
    (root / "open-shutdown").touch()
    assert fleet.master.wait(job) == ["success"]
    assert output_of(fleet, job) == b"over\n"
    assert (root / "tally-shutdown").read_text() == "x\n"
