"""What copies on other nodes cost; `python -m tests.bench copies`.

Jobs with two candidates beside none, in turns in the same run; and a change of a configuration with 50 nodes, whose
node daemons are simulated in this process.
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from common.paths import Paths
from protocol.wconfd.changes import UpdateCluster
from protocol.wconfd.config import GetObject
from tests.bench.figures import RUNS, show
from tests.bench.jobs import many_jobs, one_job
from tests.support.cluster import Cluster
from tests.support.machines.fleet import Fleet
from tests.support.machines.nodedaemons import Seen, replying
from tests.support.machines.simulated import SimulatedNodes

JOBS = 100
ALONE = 20
NODES = 50
CHANGES = 10


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        _jobs(Path(scratch))
        _changes(Path(scratch) / "many")


def _jobs(folder: Path) -> None:
    """Turns of both, so that the machine is as busy for the one as for the other."""
    with (
        Cluster(folder / "alone") as alone,
        Fleet(folder / "ours", 2) as ours,
        Fleet(folder / "ganeti", 2) as ganeti,
    ):
        alone.start("wconfd", "forkserver", "luxid")
        for fleet in (ours, ganeti):
            for node in fleet.nodes:
                node.be_of_ganeti(fleet is ganeti)
            fleet.start()
            fleet.master.start("forkserver", "luxid")
            fleet.until_same_queue(*fleet.nodes)
        kinds = (alone, ours.master, ganeti.master)
        rates: list[list[float]] = [[] for _ in kinds]
        spent = [0.0 for _ in kinds]
        ones = [one_job(cluster, ALONE) * 1000 for cluster in kinds]
        for _ in range(RUNS):
            for place, cluster in enumerate(kinds):
                before = _cpu_s(cluster, "luxid")
                rates[place].append(many_jobs(cluster, JOBS))
                spent[place] += _cpu_s(cluster, "luxid") - before
        for fleet in (ours, ganeti):
            fleet.until_same_queue(*fleet.nodes)
        _show(f"{JOBS} no-op jobs with 2 candidates", [statistics.median(each) for each in rates], "jobs/s")
        _show("one no-op job with 2 candidates, submit to end seen", ones, "ms")
        _show("CPU of luxid for a job with 2 candidates", [each * 1000 / (JOBS * RUNS) for each in spent], "ms")


def _show(what: str, figures: Sequence[float], unit: str) -> None:
    none, ours, ganeti = figures
    show(what, ours, unit, f"{none:.1f} with none, {ganeti:.1f} with calls of Ganeti alone")


def _changes(root: Path) -> None:
    with Fleet(root, 0) as fleet:
        cluster = fleet.master
        _add_nodes(cluster.paths)
        seen = _Counted()
        node = replying(seen, b"[true, null]\n")
        with SimulatedNodes(cluster.paths, fleet.port, {_ip(number): lambda _: node for number in range(1, NODES + 1)}):
            cluster.start("wconfd")
            # a new wconfd sends everything twice
            seen.rounds.acquire()
            seen.rounds.acquire()
            before, times = _cpu_s(cluster, "wconfd"), []
            for number in range(CHANGES):
                found: Any = cluster.wconf(GetObject("cluster"))
                began = time.perf_counter()
                assert cluster.wconf(UpdateCluster({**found, "tags": [f"tag{number}"]}))
                acknowledged = time.perf_counter() - began
                seen.rounds.acquire()
                times.append((acknowledged, time.perf_counter() - began))
            spent_ms = (_cpu_s(cluster, "wconfd") - before) * 1000 / CHANGES
        told, arrived = (statistics.median(each) * 1000 for each in zip(*times, strict=True))
        show(f"change of a configuration with {NODES} nodes, until all have it", arrived, "ms", f"told at {told:.1f}")
        show("CPU of wconfd for it", spent_ms, "ms")


def _add_nodes(paths: Paths) -> None:
    config = orjson.loads(paths.config_data.read_bytes())
    (first,) = config["nodes"].values()
    for number in range(1, NODES + 1):
        uuid, ip = f"simulated{number}", _ip(number)
        # a tenth are candidates
        added = {"uuid": uuid, "name": f"{uuid}.test", "primary_ip": ip, "secondary_ip": ip}
        config["nodes"][uuid] = {**first, **added, "master_candidate": number % 10 == 0}
    paths.config_data.write_bytes(orjson.dumps(config))


def _ip(number: int) -> str:
    return f"127.0.2.{number}"


class _Counted(Seen):
    """What all simulated nodes have seen together."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        # raised whenever ssconf was sent as often again as there are nodes
        self.rounds = threading.Semaphore(0)

    def note(self) -> None:
        if not self.requests:
            # a connection
            return
        self._count += self.requests.pop().target == b"/write_ssconf_files"
        self.bodies.clear()
        if self._count == NODES:
            self._count = 0
            self.rounds.release()


def _cpu_s(cluster: Cluster, daemon: str) -> float:
    fields = Path(f"/proc/{cluster.daemons[daemon].pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
