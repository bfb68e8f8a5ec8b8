"""OP_CLUSTER_REDIST_CONF, with real node daemons (noded.md 8)."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet, files

OP = {"OP_ID": "OP_CLUSTER_REDIST_CONF"}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 2) as fleet:
        yield fleet


def lines_of(cluster: Cluster, job_id: int) -> list[str]:
    """The texts of the job's log, and its state."""
    (log,) = cluster.job(job_id, "oplog")
    return [*(entry[3] for entry in log[0]), cluster.status(job_id)]


def test_it_brings_back_all_that_nodes_have_lost_and_tells_of_those_that_are_away(fleet: Fleet) -> None:
    fleet.start()
    fleet.master.start("forkserver", "luxid")
    fleet.until_same(*fleet.nodes)
    there, away = fleet.nodes
    serial = fleet.master.paths.config_data.read_bytes()
    (fleet.master.paths.data / "hmac.key").write_bytes(b"secret")
    there.paths.config_data.unlink()
    there.paths.ssconf_file("node_list").unlink()
    away.kill()

    job_id = fleet.master.submit(OP)
    fleet.master.wait(job_id)

    first, second, state = lines_of(fleet.master, job_id)
    assert first == "warning: the configuration has not reached node 'node3.test'; wconfd tries again"
    assert second.startswith("warning: node 'node3.test' at 127.0.0.3:")
    assert state == "success"
    assert files(there.paths) == fleet.files_of_master()
    assert (there.paths.data / "hmac.key").read_bytes() == b"secret"
    assert fleet.master.paths.config_data.read_bytes() != serial


def test_a_change_of_users_and_tokens_is_sent_to_the_other_nodes_at_once(fleet: Fleet) -> None:
    fleet.start()
    fleet.master.start("forkserver", "luxid")
    master, (node, _) = fleet.master, fleet.nodes
    (master.paths.data / "rapi").mkdir()
    master.paths.rapi_users.write_text("jack abc123 read\n")

    made = run("gantry", "--root", master.root, "token", "create", "--for", "ci", "--rights", "jobs.read")

    assert made.code == 0, made
    assert made.err.splitlines()[-1] == "job 1 sends it to the other nodes"
    assert master.wait(1) == ["success"]
    for path in ("rapi/users", "rapi/tokens"):
        assert (node.paths.data / path).read_bytes() == (master.paths.data / path).read_bytes()
    assert stat.S_IMODE(node.paths.rapi_tokens.stat().st_mode) == 0o600
    assert stat.S_IMODE(node.paths.rapi.stat().st_mode) == 0o750


def test_on_one_machine_it_is_done_at_once(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()

        job_id = cluster.submit(OP)

        assert cluster.wait(job_id) == ["success"]
        assert lines_of(cluster, job_id) == ["success"]
