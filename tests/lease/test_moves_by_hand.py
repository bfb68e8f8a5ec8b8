"""`gantry cluster` moves a real mastership: what operators see, and what becomes of a command meanwhile (DESIGN 14)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(module_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeaseFleet]:
    root: Path = tmp_path_factory.mktemp("fleet")
    with LeaseFleet(root, module_etcd, 2) as fleet:
        fleet.up()
        yield fleet


def shown(node: Candidate) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(node.gantry("cluster", "--output", "json").out)
    return told


def may_follow(node: Candidate, asked: Candidate) -> bool:
    (member,) = [each for each in shown(asked)["members"] if each["name"] == node.name]
    return (member["role"], member["copies"], member["lag_files"]) == ("replica", "fresh", 0)


def test_the_story_of_a_switchover_maintenance_and_a_takeover(fleet: LeaseFleet, tmp_path: Path) -> None:
    first = fleet.until_master()
    (second,) = [each for each in fleet if each is not first]
    wait_until(lambda: may_follow(second, first), what="the other one to be fit", state=lambda: shown(first))
    # every node tells the same
    assert {shown(node)["master"] for node in fleet} == {first.name}
    assert f"mastership: {first.name} has it, epoch 1; keeperd here: follow\n" in second.gantry("status").out

    gate = tmp_path / "gate"
    job = run(
        *("gnt-job", "--root", first.cluster.root, "run", "--node", second.name, "--"),
        *("sh", "-c", f"until [ -e {gate} ]; do sleep 0.1; done; echo whole"),
    )
    assert job.code == 0, job
    wait_until(lambda: first.cluster.status(1) == "running", what="the command to run")

    moved = second.gantry("cluster", "switchover", second.name, "--limit", "2m")

    assert moved.code == 0, moved
    assert moved.out.endswith(f"'{second.name}' is the master now, epoch 2\n")
    assert second.serves()
    gate.touch()
    assert second.cluster.wait(1) == ["success"]
    assert run("gnt-job", "--root", second.cluster.root, "output", "1").out == "whole\n"

    # in maintenance nobody follows by itself; a takeover names the next one
    assert second.gantry("cluster", "maintenance", "on").code == 0
    wait_until(lambda: may_follow(first, second), what="the first one to be fit again", state=lambda: shown(second))
    second.crash()
    wait_until(lambda: not shown(first)["master"], what="the lease to run out", state=lambda: shown(first))
    alone = first.gantry("cluster")
    assert alone.code == 3
    assert "maintenance: the mastership stays where it is" in alone.out

    taken = first.gantry("cluster", "takeover", "--i-accept-loss", first.name)

    assert taken.code == 0, taken
    assert taken.out.endswith(f"'{first.name}' is the master now, epoch 3\n")
    assert first.cluster.status(1) == "success"
