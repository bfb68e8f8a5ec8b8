"""The runbook of a restored etcd, as deploy/etcd/README.md has it (lease.md 4)."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from tests.support.etcds.etcd import ETCD_SERVER, Etcd, EtcdBinary, EtcdMember
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until

ETCDCTL = shutil.which("etcdctl")
TOKEN = ("--initial-cluster-token", "restored-1")


@pytest.fixture
def etcd(tmp_path: Path, etcd_binary: EtcdBinary) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd", binary=etcd_binary) as etcd:
        yield etcd


@pytest.fixture
def master(etcd: Etcd, tmp_path: Path) -> Iterator[Candidate]:
    with LeaseFleet(tmp_path, etcd, 1) as fleet:
        fleet.up()
        yield fleet.until_master()


def etcdctl(*words: object) -> None:
    assert ETCDCTL is not None
    environment = {**os.environ, "ETCDCTL_API": "3"}
    subprocess.run([ETCDCTL, *map(str, words)], env=environment, check=True, capture_output=True)


def restore(member: EtcdMember, snapshot: Path) -> None:
    """Let a member begin anew from a snapshot, under a token that was never used."""
    member.kill()
    shutil.rmtree(member.folder)
    peers = f"http://127.0.0.1:{member.peer_port}"
    places = ("--name", member.name, "--data-dir", member.folder, "--initial-advertise-peer-urls", peers)
    etcdctl("snapshot", "restore", snapshot, *places, "--initial-cluster", f"{member.name}={peers}", *TOKEN)
    member.restart()


def shown(node: Candidate) -> dict[str, Any]:
    told = node.gantry("cluster", "--output", "json").out
    found: dict[str, Any] = json.loads(told) if told else {}
    return found


@pytest.mark.skipif(ETCDCTL is None, reason=f"etcdctl is not installed; {ETCD_SERVER}, and etcd-client")
def test_a_restored_etcd_is_doubted_until_an_operator_accepts_it(etcd: Etcd, master: Candidate, tmp_path: Path) -> None:
    (member,) = etcd.members
    etcdctl("--endpoints", member.url, "snapshot", "save", tmp_path / "snapshot")
    assert run("gnt-job", "--root", master.cluster.root, "run", "--wait", "--", "true").code == 0
    assert master.gantry("down").code == 0
    lost = int(master.paths.epoch_file.read_text().split()[0])

    restore(member, tmp_path / "snapshot")
    assert master.gantry("up", "--detach").code == 0
    wait_until(lambda: shown(master).get("state") == "doubt", what="keeperd to doubt", state=lambda: shown(master))
    assert not master.serves()
    # on a slow machine it was lost, and won again
    words = r"mastership: nobody has it, last epoch \d+; keeperd here: doubt"
    assert re.search(words, out := master.gantry("status").out), out
    asked = master.gantry("cluster", "accept-restore")
    assert asked.code == 13
    assert "in doubt: 'node1.test'\nlost: changes that only the lost revisions of etcd held" in asked.err

    assert master.gantry("cluster", "accept-restore", "--yes").code == 0

    wait_until(master.serves, what="it serves", state=lambda: shown(master))
    assert master.cluster.status(1) == "success"
    grant = master.grant()
    assert grant is not None
    assert grant.fence.epoch > lost
