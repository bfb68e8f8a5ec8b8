"""The history of a large archive, and its retention, beside jobs that run.

`python -m tests.bench history [COUNT]`: the archive has so many jobs, and half of them are to be removed.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from common.ids import JobId
from common.queue.jobfile import encode_job
from common.queue.jobs import Job, JobOp, JobState, to_timestamp
from common.queue.terms import JobTerms, terms_entry
from protocol.luxi.history import Grouping, Past, Prune, Pruned, ReadHistory, Sorting, SummarizeHistory
from tests.bench.figures import median_ms, seconds, show
from tests.bench.jobs import one_job
from tests.bench.procs import cpu_s, memory_mib
from tests.support.cluster import Cluster

COUNT: Final = 100_000
_NAMES: Final = 50
_DAY_S: Final = 86_400
_RULES: Final = "[retention]\nkeep_days = 90\nkeep_failed_days = 90\n"
_RUNS: Final = 10


def main(count: int = COUNT) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch,
        Cluster(Path(scratch) / "cluster", settings=_RULES) as cluster,
    ):
        fill_archive(cluster, count)
        cluster.start()
        _build(cluster, count)
        _questions(cluster)
        _removal(cluster, count)


def fill_archive(cluster: Cluster, count: int) -> None:
    """The older half ended 200 days ago; each tenth job has output."""
    now = time.time()
    for number in range(1, count + 1):
        days = 200 if number <= count // 2 else 10
        path = cluster.paths.archived_job_file(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_job(number, now - days * _DAY_S + number))
        if number % 10 == 0:
            Path(f"{cluster.paths.output_file(number)}.{0:020d}").write_bytes(b"x" * 1000)
    cluster.paths.serial_file.write_text(f"{count}\n")


def _job(number: int, at: float) -> bytes:
    terms = JobTerms(f"backup-{number % _NAMES}", {"team": ("web", "db")[number % 2], "run": str(number)})
    trail = [["gnt:client:gnt-job", "run", 1], terms_entry(terms, 1).to_wire()]
    op_input = {"OP_ID": "OP_RUN_COMMAND", "argv": ["rsync", "-a", f"/srv/{number}", "/backup"], "reason": trail}
    state = JobState.ERROR if number % 20 == 0 else JobState.SUCCESS
    result = {"exit_code": 0} if state is JobState.SUCCESS else ["CommandFailed", ["it failed", {"exit_code": 1}]]
    began, ended = to_timestamp(at + number % 7), to_timestamp(at + 30 + number % 97)
    op = JobOp(op_input, state, result, (), 0, began, began, ended)
    return encode_job(Job(JobId(number), (op,), to_timestamp(at), began, ended))


def _build(cluster: Cluster, count: int) -> None:
    began, before = time.perf_counter(), cpu_s(cluster.daemons["luxid"].pid)
    beside: list[float] = []
    while cluster.luxi(ReadHistory(limit=0)).unread:
        beside.append(one_job(cluster, 10))
    took, spent = time.perf_counter() - began, cpu_s(cluster.daemons["luxid"].pid) - before
    show(f"index of {count:,} archived jobs, until it has all", took, "s", f"{spent:.1f} s of luxid's CPU")
    alone = [one_job(cluster, 10) for _ in range(_RUNS)]
    ratio = f"{_middle(beside) / _middle(alone):.2f} of alone" if beside else "none ran"
    show("one no-op job meanwhile, submit to end seen", _middle(beside or [0.0]) * 1000, "ms", ratio)
    size = sum(path.stat().st_size for path in cluster.paths.data.glob("history.sqlite*")) / 2**20
    show("size of the index", size, "MiB", f"luxid has {memory_mib(cluster.daemons['luxid'].pid):.0f} MiB")


def _questions(cluster: Cluster) -> None:
    def ask(what: str, question: Callable[[], object]) -> None:
        show(what, median_ms(question, _RUNS), "ms")

    web = Past(filter=["&", ["==", "label.team", "web"], ["=~", "name", "^backup-1"]])
    ask("the latest 20 ended jobs", lambda: cluster.luxi(ReadHistory(limit=20)))
    ask(
        "the 20 of a label and a name that waited longest",
        lambda: cluster.luxi(ReadHistory(web, Sorting.WAIT, limit=20)),
    )
    ask("sums of all by name", lambda: cluster.luxi(SummarizeHistory()))
    ask("sums of all by day in a zone", lambda: cluster.luxi(SummarizeHistory(by=Grouping.DAY, zone="Europe/Athens")))


def _removal(cluster: Cluster, count: int) -> None:
    told = Pruned()

    def tell() -> None:
        nonlocal told
        told = cluster.luxi(Prune(True))

    show(f"what of {count:,} would be removed", seconds(tell), "s", f"{told.jobs:,} jobs, {told.outputs:,} outputs")
    before, done = cpu_s(cluster.daemons["luxid"].pid), 0

    def remove() -> None:
        nonlocal done
        while True:
            part = cluster.luxi(Prune())
            done += part.jobs
            if not part.left:
                return

    took = seconds(remove)
    show(
        f"removal of {done:,} jobs",
        took,
        "s",
        f"{done / took:,.0f} /s, {cpu_s(cluster.daemons['luxid'].pid) - before:.1f} s of CPU",
    )
    show("memory of luxid afterwards", memory_mib(cluster.daemons["luxid"].pid), "MiB")


def _middle(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
