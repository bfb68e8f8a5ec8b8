"""`gantry up` and `status` of an installation that may have more than one machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.nodes.certificates import digest_of
from common.paths import Paths
from tests.cli.command import Ended, run
from tests.support.machines.nodes import HOST, LEAN
from tests.support.sockets.ports import free_port


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    names = f'{LEAN}[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n'
    (tmp_path / "gantry.toml").write_text(f'{names}[noded]\naddress = "{HOST}"\nport = {free_port()}\n')
    yield tmp_path
    gantry(tmp_path, "down")


def gantry(root: Path, *words: str) -> Ended:
    return run("gantry", "--root", root, *words)


def test_the_master_runs_noded_too_and_is_a_candidate_that_node_daemons_obey(root: Path) -> None:
    paths = Paths.under_root(root)

    up = gantry(root, "up", "--detach")
    status = gantry(root, "status")

    assert [line.split()[0] for line in up.out.splitlines()[1:]] == ["noded", "wconfd", "forkserver", "luxid"]
    assert status.code == 0
    assert [line.split()[:2] for line in status.out.splitlines() if line.startswith("noded")] == [["noded", "ready"]]
    certificates = paths.ssconf_file("master_candidates_certs").read_text()
    assert certificates.strip().split("=")[1] == digest_of(paths.client_pem.read_bytes())
    assert paths.ssconf_file("node_primary_ips").read_text() == f"node1.test {HOST}\n"
    assert gantry(root, "cluster", "verify").code == 0


def test_a_node_that_is_not_the_master_runs_noded_alone(root: Path) -> None:
    gantry(root, "cluster", "init", "lab")
    Paths.under_root(root).ssconf_file("master_node").unlink()
    Paths.under_root(root).ssconf_file("master_node").write_text("node9.test\n")

    up = gantry(root, "up", "--detach")
    status = gantry(root, "status")

    assert [line.split()[0] for line in up.out.splitlines()] == ["noded"]
    assert [line.split()[:2] for line in status.out.splitlines()[1:-1]] == [["noded", "ready"]]
    assert status.out.splitlines()[-1] == "this node is not the master; node9.test is"
    assert status.code == 0


def test_certificates_are_made_when_a_cluster_of_one_machine_gets_more(tmp_path: Path) -> None:
    gantry(tmp_path, "cluster", "init", "--node", "node1.test", "lab")
    paths = Paths.under_root(tmp_path)
    assert not paths.server_pem.exists()
    names = f'{LEAN}[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n'
    (tmp_path / "gantry.toml").write_text(f'{names}[noded]\naddress = "{HOST}"\nport = {free_port()}\n')

    try:
        assert gantry(tmp_path, "up", "--detach").code == 0
        assert paths.server_pem.exists()
    finally:
        gantry(tmp_path, "down")
