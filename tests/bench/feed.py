"""Subscribers of luxid's feed beside a long queue: what a change costs luxid, and how soon it is told.

python -m tests.bench feed [QUEUED [SUBSCRIBERS]]

Each event is a change of a queued job's priority. A tenth of the subscribers hears of all jobs, as a gateway does; the
others name fifty, as a page does. What the change itself costs is measured first, without subscribers.
"""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from common.ids import JobId
from protocol.client import Client
from protocol.luxi.feed import FeedChanges, FeedTopic, Subscribe, job_news, read_changes
from protocol.luxi.jobs import ChangeJobPriority
from tests.bench.figures import show
from tests.bench.procs import cpu_s, memory_mib
from tests.bench.queued import pause_all, put_jobs
from tests.support.cluster import Cluster

QUEUED: Final = 100_000
SUBSCRIBERS: Final = 500
EVENTS: Final = 1000
ON_A_PAGE: Final = 50
FIELDS: Final = ("id", "status", "priority", "summary_text", "user")


async def _drain(path: Path, asked: Subscribe, is_there: trio.Event) -> None:
    """A subscriber that takes what comes, without looking at it."""
    client = Client(path, daemon="luxid")
    await client.subscribe(asked)
    is_there.set()
    while True:
        await client.event()


async def _change(path: Path, job_ids: Sequence[JobId], priority: int) -> float:
    """Change the jobs one after the other; return the seconds."""
    began = time.perf_counter()
    async with Client(path, daemon="luxid") as client:
        for job_id in job_ids:
            await client.call(ChangeJobPriority(job_id, priority))
    return time.perf_counter() - began


async def _delays(path: Path, job_ids: Sequence[JobId], count: int) -> list[float]:
    """Seconds from the request for a change until it is told."""
    feed, client = Client(path, daemon="luxid"), Client(path, daemon="luxid")
    await feed.subscribe(Subscribe((FeedTopic.JOBS,), tuple(job_ids), FIELDS))
    delays = []
    for job_id in job_ids[:count]:
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, ChangeJobPriority(job_id, 10))
            told: FeedChanges | None = None
            while told is None or all(news.job_id != job_id for news in told.jobs):
                read = read_changes(*await feed.event())
                told = read[1] if read is not None else None
            delays.append(time.perf_counter() - began)
    await feed.aclose()
    await client.aclose()
    return delays


async def _snapshot(path: Path) -> tuple[float, int]:
    """Seconds for the rows of all jobs, and their number."""
    began = time.perf_counter()
    async with Client(path, daemon="luxid") as client:
        begun = await client.subscribe(Subscribe((FeedTopic.JOBS,), None, FIELDS))
    return time.perf_counter() - began, sum(1 for _ in job_news(begun.jobs))


def _wishes(queued: int, subscribers: int) -> list[Subscribe]:
    topics = (FeedTopic.JOBS, FeedTopic.REASONS, FeedTopic.QUEUE)
    gateways = max(1, subscribers // 10)
    pages = [
        Subscribe(topics, tuple(JobId((number * 7 + each) % queued + 1) for each in range(ON_A_PAGE)), FIELDS)
        for number in range(subscribers - gateways)
    ]
    return [*pages, *[Subscribe(topics, None, FIELDS, with_snapshot=False)] * gateways]


async def _measure(cluster: Cluster, queued: int, subscribers: int) -> None:
    luxid, path = cluster.daemons["luxid"].pid, cluster.paths.query_socket
    job_ids = [JobId(number % queued + 1) for number in range(0, EVENTS * 37, 37)]
    before = cpu_s(luxid)
    took = await _change(path, job_ids, 10)
    bare = (cpu_s(luxid) - before) / EVENTS
    show("CPU of luxid for a change that nobody hears of", bare * 1e6, "us", f"{EVENTS / took:.0f} changes/s")
    seconds, rows = await _snapshot(path)
    show(f"snapshot of {rows:,} jobs", seconds * 1000, "ms")
    idle_mib = memory_mib(luxid)
    async with trio.open_nursery() as nursery:
        for asked in _wishes(queued, subscribers):
            is_there = trio.Event()
            nursery.start_soon(_drain, path, asked, is_there)
            await is_there.wait()
        show(f"memory of luxid for {subscribers} subscribers", memory_mib(luxid) - idle_mib, "MiB")
        before = cpu_s(luxid)
        took = await _change(path, job_ids, -10)
        heard = (cpu_s(luxid) - before) / EVENTS
        show(
            f"CPU of luxid for a change with {subscribers} subscribers",
            heard * 1e6,
            "us",
            f"{(heard - bare) * 1e6 / subscribers:.2f} us for each of them, {EVENTS / took:.0f} changes/s",
        )
        delays = await _delays(path, job_ids[:200], 200)
        show("change asked -> told, median", statistics.median(delays) * 1000, "ms", f"most {max(delays) * 1e3:.1f} ms")
        nursery.cancel_scope.cancel()
    show("memory of luxid after they have gone, more than before", memory_mib(luxid) - idle_mib, "MiB")


def main(queued: int = QUEUED, subscribers: int = SUBSCRIBERS) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as folder, Cluster(Path(folder) / "c") as cluster:
        cluster.start()
        pause_all(cluster)
        cluster.kill("luxid")
        put_jobs(cluster.paths, queued)
        os.sync()
        cluster.start("luxid")
        trio.run(_measure, cluster, queued, subscribers)
