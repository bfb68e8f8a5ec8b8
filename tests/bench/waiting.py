"""Many clients wait for running jobs: how long a change takes to reach its waiter, and what luxid pays.

python -m tests.bench.waiting [CLIENTS [JOBS]]
"""

import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import trio

from common.ids import JobId
from protocol.client import Client
from protocol.luxi.queries import WaitForJobChange
from tests.bench.procs import cpu_s, memory_mib
from tests.support.cluster import Cluster
from tests.support.wait import wait_until_async

# lines of its log that each job writes while it is being watched
ROUNDS = 5
PAUSE_S = 2.0


async def _wait_for_lines(path: Path, job_id: JobId, delays: list[float]) -> None:
    """Take the log of a job line by line; a line bears the time at which it was written."""
    client = Client(path, daemon="luxid")
    serial = 0
    while serial < ROUNDS:
        news = await client.call(WaitForJobChange(job_id, ("status",), ["running"], serial, 60.0))
        now = time.time()
        for entry in news.entries:
            serial = entry.serial
            delays.append(now - (entry.at[0] + entry.at[1] / 1e6))


async def _watch(cluster: Cluster, job_ids: list[JobId], clients: int) -> None:
    luxid = cluster.daemons["luxid"].pid
    idle_mib = memory_mib(luxid)
    delays: list[float] = []
    async with trio.open_nursery() as nursery:
        for number in range(clients):
            nursery.start_soon(_wait_for_lines, cluster.paths.query_socket, job_ids[number % len(job_ids)], delays)
            # a storm of connections is not what is measured
            await trio.sleep(0.002)
        await wait_until_async(lambda: _connections(luxid) >= clients, what="all clients are connected")
        (cluster.root / "go").touch()
        began, cpu_before = time.monotonic(), cpu_s(luxid)
        peak_mib = memory_mib(luxid)
    took_s = time.monotonic() - began
    quantiles = statistics.quantiles(delays, n=100)
    print(f"{clients} clients, {len(job_ids)} jobs, {len(delays)} lines seen in {took_s:.1f} s")
    print(f"line written -> seen by its waiter: median {quantiles[49] * 1e3:.1f} ms, 95 % {quantiles[94] * 1e3:.1f} ms")
    print(
        f"luxid: {cpu_s(luxid) - cpu_before:.2f} s of CPU, {idle_mib:.0f} MiB before, {peak_mib:.0f} MiB with clients"
    )
    await wait_until_async(lambda: _connections(luxid) < 100, what="clients that are gone are forgotten")
    print(f"luxid: {memory_mib(luxid):.0f} MiB after they have gone")


def _connections(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _job(go: Path, delay_s: float) -> list[dict[str, Any]]:
    # the jobs write their lines one after the other, not all at the same moment
    script = f"while ! [ -e {go} ]; do sleep 0.2; done; sleep {delay_s:.3f}"
    wait = {"OP_ID": "OP_RUN_COMMAND", "argv": ["sh", "-c", script]}
    return [wait, {"OP_ID": "OP_TEST_DELAY", "duration": PAUSE_S, "repeat": ROUNDS}]


def main(clients: int = 2000, jobs: int = 100) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with (
        tempfile.TemporaryDirectory() as folder,
        Cluster(Path(folder), settings=f"[luxid]\nmax_running_jobs = {jobs}\n") as cluster,
    ):
        cluster.start()
        go = cluster.root / "go"
        job_ids = [cluster.submit(*_job(go, PAUSE_S * number / jobs)) for number in range(jobs)]
        cluster.wait(*job_ids, status="running")
        trio.run(_watch, cluster, job_ids, clients)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
