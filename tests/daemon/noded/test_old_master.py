"""A node that hears of a newer master stops what it runs as the old one, jobs too (DESIGN 12; masterfailover.md 3)."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.daemons import MASTER_DAEMONS
from common.system.processes import Process, descendants, send_all
from common.system.running import find_daemon
from tests.daemon.luxid.ops import gated, process_of
from tests.support.machines.nodes import NAME, Node
from tests.support.wait import wait_until


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Node]:
    """The master of a cluster, whose daemons nobody starts again."""
    with Node(tmp_path) as node:
        config, ssconf = node.paths.config_data, node.paths.ssconf_file("master_node")
        config.write_text(config.read_text().replace("node1.test", NAME))
        ssconf.unlink()
        ssconf.write_text(f"{NAME}\n")
        node.cluster.start("noded", "wconfd", "forkserver", "luxid")
        yield node
        node.cluster.crash()


def running(node: Node) -> list[str]:
    return [name for name in MASTER_DAEMONS if find_daemon(node.paths, name)]


@pytest.mark.parametrize("claimed", [True, False], ids=["by a claim", "by a call of the new master"])
def test_an_old_master_that_hears_of_a_newer_one_ends_with_its_jobs(
    master: Node, tmp_path: Path, *, claimed: bool
) -> None:
    job_id = master.cluster.submit(gated(tmp_path / "never"))
    master.cluster.wait(job_id, status="running")
    pid = process_of(master.cluster, job_id)
    before = master.paths.job_file(job_id).read_bytes()

    if claimed:
        assert master.call("gantry_claim_epoch", [1, "node9.test"]) == [True, None]
    else:
        master.call("version", [], epoch=1)

    wait_until(lambda: not running(master), what="the daemons of the master have ended", state=lambda: running(master))
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the job's process has ended")
    now, said = (
        master.paths.job_file(job_id).read_bytes(),
        [master.cluster.log(name) for name in ("luxid", "forkserver")],
    )
    assert now == before, (now, said)
    assert find_daemon(master.paths, "noded")


def test_a_job_process_of_an_old_master_does_not_write_how_its_command_was_ended(master: Node, tmp_path: Path) -> None:
    job_id = master.cluster.submit(gated(tmp_path / "never"))
    master.cluster.wait(job_id, status="running")
    pid = process_of(master.cluster, job_id)
    # a job runs a moment before its command does
    wait_until(lambda: any(map(is_shell, descendants(pid))), what="the command runs")
    before = master.paths.job_file(job_id).read_bytes()
    master.cluster.kill("luxid")
    master.paths.epoch_file.write_text("7 node9.test\n")

    send_all(descendants(pid), signal.SIGKILL)

    wait_until(lambda: not Path(f"/proc/{pid}").exists(), what="the job's process has ended")
    assert master.paths.job_file(job_id).read_bytes() == before


def is_shell(process: Process) -> bool:
    try:
        return Path(f"/proc/{process.pid}/comm").read_text() == "sh\n"
    except OSError:
        # it has ended
        return False


def test_a_node_that_claims_an_epoch_itself_runs_on(master: Node) -> None:
    master.call("gantry_claim_epoch", [1, NAME])
    # it has looked at the epoch by then
    assert not master.call("node_stop_master", [])[0]

    assert len(running(master)) == len(MASTER_DAEMONS)
    assert master.cluster.submit({"OP_ID": "OP_TEST_DUMMY"})


def test_a_node_daemon_that_was_down_meanwhile_stops_the_old_master_at_its_start(master: Node) -> None:
    master.kill()
    master.paths.epoch_file.write_text("3 node9.test\n")

    master.start()

    wait_until(lambda: not running(master), what="the daemons of the master have ended", state=lambda: running(master))
