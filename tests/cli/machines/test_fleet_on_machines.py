"""Commands on many nodes from end to end: real daemons of a master and two nodes (DESIGN section 13, "Fleet")."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.command import Background, Ended, run
from tests.cli.verbs.gantry.test_completion import complete
from tests.support.machines.fleet import Fleet
from tests.support.wait import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("fleet"), 2) as fleet:
        for node in fleet.nodes:
            node.start()
        fleet.master.start("noded", "wconfd", "forkserver", "luxid")
        yield fleet


def job(fleet: Fleet, *words: object) -> Ended:
    return run("gnt-job", "--root", fleet.master.root, *words)


def intervals(folder: Path) -> list[tuple[float, float]]:
    """Begin and end of each command, by the begin."""
    times = [tuple(map(float, path.read_text().split())) for path in folder.iterdir()]
    return sorted((begin, end) for begin, end in times)


def test_all_nodes_run_it_once_and_never_more_at_once_than_allowed(fleet: Fleet, tmp_path: Path) -> None:
    times, gates = tmp_path / "times", tmp_path / "gates"
    times.mkdir()
    gates.mkdir()
    # a node that ends at once may be over before it is told that it runs
    wait = f"until [ -e {gates}/$GANTRY_NODE ]; do sleep 0.02; done"
    script = f"b=$(date +%s.%N); echo on $GANTRY_NODE; {wait}; echo $b $(date +%s.%N) >> {times}/$GANTRY_NODE"

    words = ("--root", fleet.master.root, "run", "--each-node", "--at-most", "1", "--wait", "--shell", "--", script)
    lines = []
    with Background("gnt-job", *words) as running:
        for number in (1, 2, 3):
            lines.append(running.read_line())
            (gates / f"node{number}.test").touch()
            lines.append(running.read_line())
        ended = running.end()

    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[1:3] for line in lines] == [
        [f"node{number}", state] for number in (1, 2, 3) for state in ("running", "success")
    ]
    assert lines[1].endswith("on node1.test\n")
    assert ended.out.startswith("3 of 3 nodes succeeded in ")
    assert sorted(path.name for path in times.iterdir()) == ["node1.test", "node2.test", "node3.test"]
    found = intervals(times)
    assert all(before[1] <= after[0] for before, after in pairwise(found))


def test_after_a_failure_no_further_node_begins(fleet: Fleet, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$GANTRY_NODE; echo no; [ $GANTRY_NODE != node2.test ]"

    ended = job(fleet, "run", "--each-node", "--at-most", "1", "--stop-on-failure", "--wait", "--shell", "--", script)

    assert ended.code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node1.test", "node2.test"]
    failed, last, canceled = ended.err.splitlines()
    assert failed.startswith("error: node2 (job ")
    assert "ended with exit code 1 (expected 0)" in failed
    assert last == "    no"
    assert canceled.startswith("node3: canceled before it began, as job ")
    assert ended.out.splitlines()[-1].endswith(", 1 failed, 1 canceled")


def test_a_node_whose_job_waits_for_a_lock_does_not_begin_after_a_failure(fleet: Fleet, tmp_path: Path) -> None:
    master, gate = fleet.master, tmp_path / "gate"
    wait = f"touch {tmp_path}/held; until [ -e {gate} ]; do sleep 0.02; done"
    holder = int(job(fleet, "run", "--lock", "instance/node3.test", "--shell", "--", wait).out)
    wait_until(lambda: (tmp_path / "held").exists(), what="the lock is held")
    fail = f"touch {tmp_path}/$GANTRY_NODE; until [ -e {tmp_path}/fail ]; do sleep 0.02; done; false"
    on = ["--node", "node2", "--node", "node3", "--lock", "instance/{node}", "--stop-on-failure", "--output", "json"]
    ids = [row["id"] for row in json.loads(job(fleet, "run", *on, "--shell", "--", fail).out)]
    master.wait(ids[0], status="running")
    master.wait(ids[1], status="waiting")

    (tmp_path / "fail").touch()

    assert master.wait(*ids) == ["error", "canceled"]
    gate.touch()
    assert master.wait(holder) == ["success"]
    assert not (tmp_path / "node3.test").exists()
    assert f"canceled before it began, as job {ids[0]} of its batch failed" in job(fleet, "why", ids[1]).out


def test_a_job_without_a_place_says_so_and_the_bound_holds_over_a_restart_of_luxid(
    fleet: Fleet, tmp_path: Path
) -> None:
    master, gate = fleet.master, tmp_path / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.02; done"
    told = json.loads(
        job(fleet, "run", "--output", "json", "--each-node", "--at-most", "2", "--shell", "--", script).out
    )
    ids = [row["id"] for row in told]
    assert [row["node"] for row in told] == ["node1.test", "node2.test", "node3.test"]
    master.wait(*ids[:2], status="running")

    why = job(fleet, "why", ids[2]).out
    master.restart("luxid")
    master.wait(*ids[:2], status="running")
    listed = job(fleet, "list", "--no-headers", "--separator", " ", "-o", "node,status", *ids)

    assert f"waits for a place: 2 of its batch run, at most 2: job/{ids[0]}, job/{ids[1]}" in why
    assert listed.out == "node1.test running\nnode2.test running\nnode3.test queued\n"
    gate.touch()
    assert master.wait(*ids) == ["success"] * 3


def test_a_node_that_dies_in_the_middle_does_not_stop_the_rest(fleet: Fleet, tmp_path: Path) -> None:
    script = f"touch {tmp_path}/$GANTRY_NODE; [ $GANTRY_NODE != node2.test ] || sleep 600"
    told = json.loads(
        job(fleet, "run", "--output", "json", "--each-node", "--at-most", "1", "--shell", "--", script).out
    )
    ids = [row["id"] for row in told]
    wait_until(lambda: (tmp_path / "node2.test").exists(), what="the command runs on node2")

    fleet.nodes[0].cluster.crash()
    fleet.nodes[0].start()

    assert fleet.master.wait(*ids) == ["success", "error", "success"]
    ended = job(fleet, "watch", *ids)
    assert ended.code == 1
    assert ended.out.splitlines()[-1].startswith("2 of 3 nodes succeeded")


def test_nodes_and_groups_complete(fleet: Fleet) -> None:
    def offered(*words: str) -> list[str]:
        return complete("gnt-job", "--root", fleet.master.root, "run", *words)

    assert offered("--node", "node2") == ["node2.test"]
    assert offered("--node-group", "d") == ["default"]
