"""What a commit by a majority costs; `python -m tests.bench lease`.

Three nodes on this machine, each with all its daemons, and an etcd of three members; beside them one machine without
any of it, in turns in the same run. All of them share this machine's processors and its disk, so the figures are those
of the worst case; the ratio to one machine is what counts.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from protocol.blocking import BlockingClient
from protocol.luxi.jobs import SubmitJob
from tests.bench.figures import RUNS, show
from tests.bench.jobs import NO_OP, many_jobs, one_job
from tests.bench.queued import pause_all
from tests.support.cluster import Cluster
from tests.support.etcds.etcd import Etcd, needed_etcd
from tests.support.machines.leasefleet import LeaseFleet

JOBS: Final = 50
ALONE: Final = 20
SUBMISSIONS: Final = 400
CLIENTS: Final = (1, 20)
# seconds; no figure is about a take-over
_TTL_S: Final = 10.0


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch,
        Etcd(Path(scratch), members=3, binary=needed_etcd()) as etcd,
        Cluster(Path(scratch) / "alone") as alone,
        LeaseFleet(Path(scratch) / "fleet", etcd, ttl_s=_TTL_S) as fleet,
    ):
        alone.start("wconfd", "forkserver", "luxid")
        fleet.up()
        master = fleet.until_master().cluster
        fleet.until_same()
        _compare("one no-op job, submit to end seen", "ms", alone, master, lambda at: one_job(at, ALONE) * 1000)
        _compare(f"{JOBS} no-op jobs of one submission", "jobs/s", alone, master, lambda at: many_jobs(at, JOBS))
        for cluster in (alone, master):
            pause_all(cluster)
        for clients in CLIENTS:
            name = f"submissions of one job, {clients} client(s), nothing starts"
            _compare(name, "/s", alone, master, lambda at, count=clients: _submissions(at, count))  # type: ignore[misc]


def _compare(what: str, unit: str, alone: Cluster, master: Cluster, run: Callable[[Cluster], float]) -> None:
    """Both in turns, so that the machine is as busy for the one as for the other."""
    figures: list[list[float]] = [[], []]
    for _ in range(RUNS):
        for place, cluster in enumerate((alone, master)):
            figures[place].append(run(cluster))
    here, there = map(statistics.median, figures)
    show(f"{what}, three nodes and etcd", there, unit, f"{here:.1f} on one machine")


def _submissions(cluster: Cluster, clients: int) -> float:
    """Submissions per second of so many clients at a time, each one after the other over a connection of its own."""
    left = threading.Semaphore(SUBMISSIONS)
    failures: list[BaseException] = []

    def submit() -> None:
        try:
            with BlockingClient(cluster.paths.query_socket, connect_timeout_s=10) as client:
                while left.acquire(blocking=False):
                    client.call(SubmitJob((NO_OP,)))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=submit) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return SUBMISSIONS / (time.perf_counter() - began)
