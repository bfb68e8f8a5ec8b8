"""Commands on nodes; `python -m tests.bench nodecommands`.

A master and two nodes on this machine, each with its own node daemon. The same command runs on the master itself in the
same run, without any node daemon, for comparison.
"""

import contextlib
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from protocol.wconfd.changes import ChangeJobLimits
from tests.bench.figures import RUNS, median, show
from tests.bench.jobs import wait_end
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet

JOBS: Final = 50
AT_ONCE: Final = 500
ALONE: Final = 20
_TRUE: Final = {"OP_ID": "OP_RUN_COMMAND", "argv": ["/bin/true"]}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch, Fleet(Path(scratch), 2) as fleet:
        fleet.start()
        fleet.master.wconf(ChangeJobLimits(AT_ONCE + 10, None))
        fleet.master.start("forkserver", "luxid")
        nodes = ["node1.test", *(node.name for node in fleet.nodes)]
        here = median(lambda: _one(fleet.master, None))
        there = median(lambda: _one(fleet.master, nodes[1]))
        show("a command on a node, submit to end seen", there * 1000, "ms", f"{here * 1000:.1f} on the master itself")
        local = median(lambda: _many(fleet.master, JOBS, [None]))
        many = median(lambda: _many(fleet.master, JOBS, nodes))
        show(f"{JOBS} commands on 3 nodes", many, "s", f"{local:.2f} on the master itself")
        before = _cpu_of_nodes(fleet)
        for _ in range(RUNS):
            _many(fleet.master, JOBS, nodes[1:])
        spent = (_cpu_of_nodes(fleet) - before) / (JOBS * RUNS)
        show("CPU of a node daemon, without the runner, for one of them", spent * 1000, "ms")
        began, held = _at_once(fleet.master, nodes[1])
        show(f"{AT_ONCE} commands at once on one node, until all run", began, "s", f"{held:.1f} until all have ended")


def _one(cluster: Cluster, node: str | None) -> float:
    """Seconds for each of some commands, one after the other."""
    began = time.perf_counter()
    for _ in range(ALONE):
        wait_end(cluster, cluster.submit(_on(node)))
    return (time.perf_counter() - began) / ALONE


def _many(cluster: Cluster, count: int, nodes: list[Any]) -> float:
    """Seconds for these commands, submitted together."""
    began = time.perf_counter()
    jobs = cluster.submit_many(*[(_on(nodes[number % len(nodes)]),) for number in range(count)])
    for job_id in jobs:
        wait_end(cluster, job_id)
    took_s = time.perf_counter() - began
    states = set(cluster.wait(*jobs))
    assert states == {"success"}, states
    return took_s


def _at_once(cluster: Cluster, node: str) -> tuple[float, float]:
    """Seconds until all of them run at the same time, and from then until all have ended."""
    go = cluster.root / "go"
    waiting = {**_on(node), "argv": ["/bin/sh", "-c", f"while [ ! -e {go} ]; do sleep 1; done"]}
    began = time.perf_counter()
    jobs = cluster.submit_many(*[(waiting,)] * AT_ONCE)
    cluster.wait(*jobs, status="running")
    all_run = time.perf_counter()
    go.touch()
    states = set(cluster.wait(*jobs))
    assert states == {"success"}, states
    return all_run - began, time.perf_counter() - all_run


def _on(node: str | None) -> dict[str, object]:
    return {**_TRUE} if node is None else {**_TRUE, "node": node}


def _cpu_of_nodes(fleet: Fleet) -> float:
    total = 0.0
    for node in fleet.nodes:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{node.cluster.daemons['noded'].pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:13])) / 100
    return total
