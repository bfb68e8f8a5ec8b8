"""Many at once: what each of a thousand costs, and whether it grows with their number.

`python -m tests.bench crowds [PART [COUNT]]`. The parts, each with a count of its own:
running     jobs that run at once, each with a command that sleeps
contended   owners, and jobs, that wait for one exclusive lock
watching    clients that wait for the end of one job, by calls and by feeds
archived    ended jobs in the archive
queued      jobs in the queue, of which a rule lets none start
steps       opcodes of one job
day         rounds of a mixed load, for leaks
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

from common.ids import JobId
from common.locks import LockMode, LockRequest, Owner, parse_lock
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.system.livelock import Livelock
from common.system.processes import descendants
from protocol.client import Client
from protocol.luxi.feed import FeedChanges, FeedTopic, Subscribe, read_changes
from protocol.luxi.jobs import ArchiveJob, CancelJob
from protocol.luxi.queries import Page, Query, QueryJobs, WaitForJobChange
from protocol.luxi.queue import DeleteFilter, ReplaceFilter
from protocol.wconfd.locks import FreeLocks, ListLocksWaitingStatus, TryUpdateLocks, UpdateLocksWaiting, WaitLocks
from tests.bench.conversations import Conversation, hold, prepared
from tests.bench.figures import median_ms, seconds, show
from tests.bench.history import fill_archive
from tests.bench.jobs import FINAL, NO_OP, one_job, wait_end
from tests.bench.procs import (
    cpu_s,
    descriptors,
    memory_mib,
    private_mib,
    proportional_mib,
    threads,
    watches,
)
from tests.bench.queue import LIST_FIELDS
from tests.bench.queued import put_jobs, startup
from tests.support.cluster import Cluster
from tests.support.wait import wait_until

_IDLE_S: Final = 10.0
_SETTLED_S: Final = 12.0
# seconds between two looks, which cost the daemons something
_PAUSE_S: Final = 1.0
_QUESTIONS: Final = 5
_BATCH: Final = 100


def main(arguments: Sequence[str] = ()) -> None:
    """Measure all parts, or one of them with a count."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    parts: dict[str, Callable[..., None]] = {
        "running": running,
        "contended": contended,
        "watching": watching,
        "archived": archived,
        "queued": queued,
        "steps": steps,
        "day": day,
    }
    if arguments and arguments[0] not in parts:
        sys.exit(__doc__)
    for name in arguments[:1] or parts:
        parts[name](*map(int, arguments[1:]))


@contextmanager
def _cluster(most_running: int = 50, most_queued: int = 100_000) -> Iterator[Cluster]:
    bounds = "[limits]\nmax_connections = 5000\nmax_job_opcodes = 20000\n"
    settings = f"[luxid]\nmax_running_jobs = {most_running}\nmax_queued_jobs = {most_queued}\n{bounds}"
    with (
        tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch,
        Cluster(Path(scratch) / "cluster", settings=settings) as cluster,
    ):
        cluster.start()
        yield cluster


class _Spent:
    """CPU of the daemons from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = {name: daemon.pid for name, daemon in cluster.daemons.items()}
        self._before = {name: cpu_s(pid) for name, pid in self._pids.items()}

    def of(self, name: str) -> float:
        """Seconds of a daemon so far."""
        return cpu_s(self._pids[name]) - self._before[name]

    def each_ms(self, count: int) -> str:
        """CPU for each of `count` things, in words."""
        return ", ".join(f"{name} {self.of(name) / count * 1000:.2f} ms" for name in self._pids) + " of CPU each"

    def __str__(self) -> str:
        return ", ".join(f"{name} {self.of(name):.2f} s" for name in self._pids) + " of CPU"


def _submit(cluster: Cluster, count: int, op: Mapping[str, Any]) -> list[JobId]:
    job_ids: list[JobId] = []
    while left := count - len(job_ids):
        job_ids += cluster.submit_many(*((dict(op),),) * min(_BATCH, left))
    return job_ids


def _count(cluster: Cluster, status: str) -> int:
    return sum(row[0] == status for row in cluster.luxi(QueryJobs(None, ("status",))))


def _wait_for(cluster: Cluster, count: int, status: str) -> None:
    while _count(cluster, status) < count:
        time.sleep(_PAUSE_S / 5)


def _gate(cluster: Cluster) -> tuple[Path, dict[str, Any]]:
    """A file on which commands sleep until it is opened, and an opcode of such a command."""
    path = cluster.root / "gate"
    os.mkfifo(path)
    return path, {"OP_ID": "OP_RUN_COMMAND", "argv": ["cat", str(path)]}


def _open_gate(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY))


# Jobs that run at once.


def running(count: int = 1000) -> None:
    with _cluster(count + 50) as cluster:
        gate, op = _gate(cluster)
        spent, began = _Spent(cluster), time.perf_counter()
        job_ids = _submit(cluster, count, op)
        _wait_for(cluster, count, "running")
        show(f"{count:,} jobs with a command, until all run", time.perf_counter() - began, "s", spent.each_ms(count))
        fork_server = cluster.daemons["forkserver"].pid
        wait_until(lambda: len(descendants(fork_server)) >= 3 * count, what="all commands run")
        pids = [process.pid for process in descendants(fork_server)]
        whole, own = (sum(map(measure, pids)) / count for measure in (proportional_mib, private_mib))
        show(
            "memory of one: job process, supervisor, command",
            whole,
            "MiB",
            f"{own:.1f} MiB private to one of the three",
        )
        show("CPU of these three until then", sum(map(_ran_s, pids)) / count * 1000, "ms")
        show(
            "memory of luxid / wconfd then",
            memory_mib(cluster.daemons["luxid"].pid),
            "MiB",
            f"{memory_mib(cluster.daemons['wconfd'].pid):.1f} MiB",
        )
        spent = _Spent(cluster)
        time.sleep(_IDLE_S)
        show(
            f"they sleep for {_IDLE_S:.0f} s: CPU of all daemons",
            sum(map(spent.of, cluster.daemons)) * 1000,
            "ms",
            str(spent),
        )
        question = QueryJobs(None, LIST_FIELDS)
        show("the list of all jobs meanwhile", median_ms(lambda: cluster.luxi(question), _QUESTIONS), "ms")
        show("one more no-op job meanwhile, submit to end seen", one_job(cluster, 10) * 1000, "ms")
        spent, began = _Spent(cluster), time.perf_counter()
        _open_gate(gate)
        for job_id in job_ids:
            wait_end(cluster, job_id)
        show(
            "all commands end at once, until all jobs have ended",
            time.perf_counter() - began,
            "s",
            spent.each_ms(count),
        )


def _ran_s(pid: int) -> float:
    """CPU of a process's first thread, exact where ticks are too coarse."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


# Those that wait for one lock.


def contended(count: int = 1000) -> None:
    with _cluster(count + 50) as cluster:
        for waiters in (max(2, count // 10), count):
            _owners_in_turn(cluster, waiters)
        for waiters in (max(2, count // 10), count):
            _jobs_in_turn(cluster, waiters)


def _owners_in_turn(cluster: Cluster, count: int) -> None:
    livelock = Livelock.create(cluster.paths.livelocks, "bench-crowd")
    first = Owner("first", livelock.path)
    items = (LockRequest(parse_lock("node/crowded"), LockMode.EXCLUSIVE),)
    assert cluster.wconf(TryUpdateLocks(first, items)) == ()
    spent = {"queued": _Spent(cluster)}
    began = time.perf_counter()
    took = {}

    def free() -> None:
        took["queued"] = time.perf_counter() - began
        show(f"{count:,} owners wait for one lock, until all do", took["queued"], "s", spent["queued"].each_ms(count))
        ask = lambda: cluster.wconf(ListLocksWaitingStatus())  # noqa: E731
        asked = _Spent(cluster)
        show(
            "list of all locks and waiters meanwhile, of wconfd",
            median_ms(ask, _QUESTIONS),
            "ms",
            asked.each_ms(_QUESTIONS),
        )
        query = Query(QueryKind.LOCK, ("name", "mode", "owner", "pending"))
        asked = _Spent(cluster)
        show("the same of luxid", median_ms(lambda: cluster.luxi(query), _QUESTIONS), "ms", asked.each_ms(_QUESTIONS))
        other = (LockRequest(parse_lock("node/aside"), LockMode.EXCLUSIVE),)
        asked = _Spent(cluster)

        def aside() -> None:
            assert cluster.wconf(TryUpdateLocks(Owner("aside", livelock.path), other)) == ()
            cluster.wconf(FreeLocks(Owner("aside", livelock.path)))

        show("another lock taken and released meanwhile", median_ms(aside, 50), "ms", asked.each_ms(50))
        spent["passed"] = _Spent(cluster)
        took["freed"] = time.perf_counter()
        cluster.wconf(FreeLocks(first))

    left = [count]

    def turn(number: int) -> Conversation:
        owner = Owner(f"turn{number}", livelock.path)
        assert (yield prepared(UpdateLocksWaiting(owner, 0, items)))
        left[0] -= 1
        if not left[0]:
            free()
        assert (yield prepared(WaitLocks(owner, 600.0)))
        yield prepared(FreeLocks(owner))

    hold(cluster.paths.wconfd_socket, [turn(number) for number in range(count)])
    each = (time.perf_counter() - took["freed"]) / count
    show(f"hand-over among {count:,} owners that wait", each * 1000, "ms", spent["passed"].each_ms(count))
    livelock.remove()


def _jobs_in_turn(cluster: Cluster, count: int) -> None:
    op = {**NO_OP, "OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {"node/crowded": "exclusive"}}
    livelock = Livelock.create(cluster.paths.livelocks, "bench-crowd")
    first = Owner("first", livelock.path)
    items = (LockRequest(parse_lock("node/crowded"), LockMode.EXCLUSIVE),)
    assert cluster.wconf(TryUpdateLocks(first, items)) == ()
    spent, began = _Spent(cluster), time.perf_counter()
    job_ids = _submit(cluster, count, op)
    while len(cluster.wconf(ListLocksWaitingStatus()).pending) < count:
        # the question costs wconfd more than a waiter does
        time.sleep(_PAUSE_S)
    show(f"{count:,} jobs wait for one lock, until all do", time.perf_counter() - began, "s", spent.each_ms(count))
    show(
        "the list of all jobs meanwhile",
        median_ms(lambda: cluster.luxi(QueryJobs(None, LIST_FIELDS)), _QUESTIONS),
        "ms",
    )
    show("one more no-op job meanwhile, submit to end seen", one_job(cluster, 5) * 1000, "ms")
    spent, began = _Spent(cluster), time.perf_counter()
    cluster.wconf(FreeLocks(first))
    for job_id in job_ids:
        wait_end(cluster, job_id)
    each = (time.perf_counter() - began) / count
    show(f"hand-over among {count:,} jobs that wait, each with a command", each * 1000, "ms", spent.each_ms(count))
    livelock.remove()


# Those that wait for the end of a job.


def watching(count: int = 1000) -> None:
    with _cluster() as cluster:
        gate, op = _gate(cluster)
        for clients in (max(2, count // 10), count):
            _wait_for_end(cluster, gate, op, clients)
        for clients in (max(2, count // 10), count):
            trio.run(_follow_to_end, cluster, gate, op, clients)


def _wait_for_end(cluster: Cluster, gate: Path, op: Mapping[str, Any], count: int) -> None:
    job_id = cluster.submit(dict(op))
    cluster.wait(job_id, status="running")
    luxid = cluster.daemons["luxid"].pid
    idle_mib = memory_mib(luxid)
    opened: list[tuple[float, _Spent, float]] = []
    left = [count]

    def wait() -> Conversation:
        # the reply tells that the call before has been taken, not that this one waits; luxid takes them in order
        reply = yield prepared(WaitForJobChange(job_id, ("status",), None, None, 60.0))
        left[0] -= 1
        known = reply[0]
        while known[0] not in FINAL:
            reply = yield prepared(WaitForJobChange(job_id, ("status",), known, None, 60.0))
            if reply != "nochange":
                known = reply[0]

    def begin() -> Conversation:
        """Open the gate when all others wait."""
        while left[0]:
            yield prepared(QueryJobs((job_id,), ("status",)))
        for _ in range(3):
            yield prepared(QueryJobs((job_id,), ("status",)))
        opened.append((memory_mib(luxid) - idle_mib, _Spent(cluster), time.perf_counter()))
        _open_gate(gate)
        yield prepared(QueryJobs((job_id,), ("status",)))

    hold(cluster.paths.query_socket, [*(wait() for _ in range(count)), begin()])
    held_mib, spent, began = opened[0]
    took = time.perf_counter() - began
    show(f"{count:,} clients wait for one job: memory of luxid", held_mib * 1024 / count, "KiB", "for each")
    _show_end(took, spent, count)


def _show_end(took_s: float, spent: _Spent, count: int) -> None:
    each = f"{spent.of('luxid') / count * 1e6:.0f} us of luxid's CPU each"
    show("its end, until all are told", took_s * 1000, "ms", each)


async def _follow_to_end(cluster: Cluster, gate: Path, op: Mapping[str, Any], count: int) -> None:
    job_id = cluster.submit(dict(op))
    cluster.wait(job_id, status="running")
    luxid = cluster.daemons["luxid"].pid
    idle_mib = memory_mib(luxid)

    async def follow(is_there: trio.Event) -> None:
        async with Client(cluster.paths.query_socket, daemon="luxid") as client:
            await client.subscribe(Subscribe((FeedTopic.JOBS,), (job_id,), ("id", "status")))
            is_there.set()
            while not (changes := read_changes(*await client.event())) or not _tells_of_end(changes[1]):
                pass

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            is_there = trio.Event()
            nursery.start_soon(follow, is_there)
            await is_there.wait()
        held_mib = memory_mib(luxid) - idle_mib
        spent, began = _Spent(cluster), time.perf_counter()
        _open_gate(gate)
    took = time.perf_counter() - began
    show(f"{count:,} feeds of one job: memory of luxid", held_mib * 1024 / count, "KiB", "for each")
    _show_end(took, spent, count)


def _tells_of_end(changes: FeedChanges) -> bool:
    return any(news.values is not None and news.values[1] in FINAL for news in changes.jobs)


# Ended jobs in the archive.


def archived(count: int = 100_000) -> None:
    with _cluster() as cluster:
        show("start of luxid, to the first answer, nothing archived", _restart_s(cluster), "s")
        cluster.kill("luxid")
        fill_archive(cluster, count)
        os.sync()
        cluster.start("luxid")
        show(f"the same with {count:,} archived jobs", _restart_s(cluster), "s", "the index of them is made meanwhile")
        luxid = cluster.daemons["luxid"].pid
        known = QueryJobs((JobId(count // 2),), LIST_FIELDS)
        show("one of them, all that is told of it", median_ms(lambda: cluster.luxi(known), 50), "ms")
        everything = Query(QueryKind.JOB, ("id", "status", "archived"))
        before = memory_mib(luxid)
        show(
            "the list of all of them",
            seconds(lambda: cluster.luxi(everything)),
            "s",
            f"{memory_mib(luxid) - before:.0f} MiB more of luxid's memory",
        )
        ended = cluster.submit_many(*((NO_OP,),) * 20)
        for job_id in ended:
            wait_end(cluster, job_id)
        left = iter(ended)
        spent = _Spent(cluster)
        show(
            "archive of one more", median_ms(lambda: cluster.luxi(ArchiveJob(next(left))), 20), "ms", spent.each_ms(20)
        )
        show("one no-op job, submit to end seen", one_job(cluster, 10) * 1000, "ms")
        show("memory of luxid", memory_mib(luxid), "MiB")


# Queued jobs.


def queued(count: int = 1_000_000) -> None:
    with _cluster(most_queued=2 * count) as cluster:
        cluster.luxi(ReplaceFilter(None, 0, (("opcode", ["=", "OP_ID", startup(0)["OP_ID"]]),), "PAUSE", ()))
        cluster.kill("luxid")
        cluster.patience_s = 600.0
        put_jobs(cluster.paths, count)
        os.sync()
        newest = Query(QueryKind.JOB, LIST_FIELDS, page=Page(50))
        start_s = seconds(lambda: _start_and_ask(cluster, newest))
        luxid = cluster.daemons["luxid"].pid
        show(f"start of luxid with {count:,} queued jobs", start_s, "s", f"{cpu_s(luxid):.1f} s of CPU")
        show("memory of luxid then", memory_mib(luxid), "MiB")
        questions = {
            "the newest 50 of them": newest,
            "those that run": Query(QueryKind.JOB, LIST_FIELDS, Expression.from_wire(["=", "status", "running"])),
            "one of them": Query(QueryKind.JOB, LIST_FIELDS, Expression.from_wire(["=", "id", count // 2])),
        }
        for what, question in questions.items():
            spent = _Spent(cluster)
            wall = median_ms(lambda asked=question: cluster.luxi(asked), _QUESTIONS)  # type: ignore[misc]
            show(f"list: {what}", wall, "ms", f"{spent.of('luxid') / _QUESTIONS * 1000:.1f} ms of luxid's CPU")
        spent = _Spent(cluster)
        show("one no-op job, submit to end seen", one_job(cluster, 10) * 1000, "ms", spent.each_ms(10))
        spent = _Spent(cluster)
        ids = QueryJobs(None, ("id", "status"))
        show("list of all, id and status", seconds(lambda: cluster.luxi(ids)), "s", str(spent))
        show("memory of luxid at the end", memory_mib(luxid), "MiB")


def _start_and_ask(cluster: Cluster, question: Query) -> None:
    cluster.start("luxid")
    cluster.luxi(question)


def _restart_s(cluster: Cluster) -> float:
    cluster.kill("luxid")

    def start_and_ask() -> None:
        cluster.start("luxid")
        cluster.luxi(QueryJobs(None, LIST_FIELDS))

    return seconds(start_and_ask)


# Opcodes of one job.


def steps(most: int = 20_000) -> None:
    with _cluster() as cluster:
        for count in [each for each in (200, 2_000) if each < most] + [most]:
            _many_steps(cluster, count)


def _many_steps(cluster: Cluster, count: int) -> None:
    spent, began = _Spent(cluster), time.perf_counter()
    job_id = cluster.submit(*(dict(NO_OP),) * count)
    show(f"a job of {count:,} no-op opcodes: submission", (time.perf_counter() - began) * 1000, "ms", str(spent))
    spent = _Spent(cluster)
    most_mib = 0.0
    while cluster.status(job_id) not in FINAL:
        most_mib = max(most_mib, _process_mib(cluster))
        time.sleep(_PAUSE_S)
    took = time.perf_counter() - began
    assert cluster.status(job_id) == "success"
    show("its run, to the end seen", took, "s", f"{took / count * 1000:.2f} ms for each, {spent}")
    size = cluster.paths.job_file(job_id).stat().st_size
    show("its file at the end", size / 1024, "KiB", f"{most_mib:.0f} MiB, the most of its process's memory")
    every = QueryJobs((job_id,), ("id", "status", "ops", "opresult", "opstatus", "oplog", "opstart", "opend"))
    show("all that is told of it", median_ms(lambda: cluster.luxi(every), _QUESTIONS), "ms")


def _process_mib(cluster: Cluster) -> float:
    """Memory of the process of the only job; 0: there is none now."""
    try:
        return memory_mib(next(cluster.job_pids()))
    except (StopIteration, OSError, AssertionError):
        return 0.0


# A mixed load, for leaks.


def day(rounds: int = 40) -> None:
    with _cluster() as cluster:
        # what is made at the first use only
        for number in range(5):
            _round(cluster, number)
        at_start = _held(cluster)
        _show_held("at the start", at_start)
        for number in range(rounds):
            if number == rounds // 4:
                _show_held(f"after {number} rounds", _held(cluster))
            _round(cluster, number)
        _show_held(f"after {rounds} rounds", _held(cluster))


def _round(cluster: Cluster, number: int) -> None:
    """Jobs that succeed, wait and are canceled; clients that vanish; rules that come and go."""
    uuid = cluster.luxi(ReplaceFilter(None, number, (["jobid", [">", "id", 10**9]],), "PAUSE", ()))
    under_lock = {"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": {f"node/day{number}": "exclusive"}}
    slow = {**under_lock, "argv": ["sleep", "60"]}
    chained = {**NO_OP, "depends": [[-1, ["success"]]]}
    holder = cluster.submit(slow)
    waiters = _submit(cluster, 5, under_lock)
    others = [*_submit(cluster, 20, NO_OP), *cluster.submit_many((NO_OP,), (chained,), (chained,))]
    trio.run(_vanish, cluster, holder)
    cluster.wait(*others)
    cluster.luxi(CancelJob(waiters[0]))
    cluster.luxi(CancelJob(holder, kill=True))
    cluster.wait(holder, *waiters)
    cluster.luxi(DeleteFilter(uuid))
    for job_id in (holder, *waiters, *others):
        assert cluster.luxi(ArchiveJob(job_id)), job_id


async def _vanish(cluster: Cluster, job_id: JobId) -> None:
    """Clients that wait for a job and for changes, and go away in the middle of it."""
    path = cluster.paths.query_socket

    async def wait(number: int) -> None:
        client = Client(path, daemon="luxid")
        if number % 2:
            await client.subscribe(Subscribe((FeedTopic.JOBS, FeedTopic.QUEUE), None, ("id", "status")))
            while True:
                await client.event()
        await client.call(WaitForJobChange(job_id, ("status",), ["gone"], None, 0.0))
        await client.call(WaitForJobChange(job_id, ("summary",), None, None, 60.0))
        await client.call(WaitForJobChange(job_id, ("received_ts",), [None], 10**6, 60.0))

    with trio.move_on_after(0.3):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(wait, number)


_Held = dict[str, tuple[float, int, int, int]]


def _held(cluster: Cluster) -> _Held:
    # no event tells that idle threads have ended, which trio lets wait for 10 s
    time.sleep(_SETTLED_S)
    return {
        name: (proportional_mib(pid), descriptors(pid), threads(pid), watches(pid))
        for name, pid in ((name, daemon.pid) for name, daemon in cluster.daemons.items())
    }


def _show_held(when: str, held: _Held) -> None:
    for name, (mib, files, running_threads, watched) in held.items():
        remark = f"{files} descriptors, {running_threads} threads, {watched} watches"
        show(f"memory of {name} {when}", mib, "MiB", remark)
