"""A master under a lease is stopped by its operator, and comes back. Source: DESIGN section 14."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ended, run
from tests.support.etcds.etcd import Etcd
from tests.support.machines.leasefleet import Candidate, LeaseFleet
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def master(module_etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Candidate]:
    root: Path = tmp_path_factory.mktemp("fleet")
    with LeaseFleet(root, module_etcd, 1) as fleet:
        fleet.up()
        yield fleet.until_master()


def test_a_master_that_is_stopped_says_what_becomes_of_its_jobs_and_they_do_not_run_on(master: Candidate) -> None:
    root = master.cluster.root

    def shown() -> dict[str, Any]:
        told: dict[str, Any] = json.loads(master.gantry("status", "--output", "json").out)
        return told

    # luxid replies a moment before all is ready
    wait_until(lambda: shown()["ready"], what="all daemons to be ready", state=shown)
    mastership = shown()["mastership"]
    epoch = mastership["epoch"]
    assert (mastership["master"], epoch >= 1) == ("node1.test", True)
    assert run("gnt-cluster", "--root", root, "getmaster") == Ended(0, "node1.test\n", "")
    assert run("gnt-job", "--root", root, "run", "--", "sleep", "600").code == 0
    wait_until(lambda: master.cluster.status(1) == "running", what="the job to run")

    down = master.gantry("down")

    assert (down.code, down.out) == (0, "down\n")
    assert down.err == (
        "this node was the master: there is no other candidate, and no node is the master until this node is up again; "
        "commands on other nodes go on, jobs that ran on this node itself have failed\n"
    )
    # nothing has failed: keeperd itself asked its daemons to end
    assert "daemons_failed" not in master.cluster.log("keeperd")
    assert master.is_dead()
    # it waits for no daemon that only a mastership brings
    up = master.gantry("up", "--detach")
    assert (up.code, "mastership  decided in etcd; see: gantry " in up.out) == (0, True)
    wait_until(master.serves, what="it serves again")
    assert master.cluster.wait(1) == ["error"]
    grant = master.grant()
    assert grant is not None
    assert grant.fence.epoch > epoch
