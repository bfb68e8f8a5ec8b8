"""Submissions to a queue, questions about it and restarts with it, while a PAUSE filter lets no job start.

`python -m tests.bench queue [COUNT ...]`: the restarts are with so many queued jobs.
"""

import subprocess
import sys
import tempfile
from itertools import count as numbers
from pathlib import Path

import orjson

from common.words.fields import DEFAULT, wire_fields
from daemons.luxid.core.query.jobs import FIELDS
from protocol.luxi.jobs import SubmitJob, SubmitManyJobs
from protocol.luxi.queries import QueryJobs
from tests.bench.figures import median, median_ms, seconds, show
from tests.bench.procs import memory_mib
from tests.bench.queued import bare_reads, bare_submissions, pause_all, put_jobs, startup
from tests.support.cluster import Cluster

COUNTS = (0, 5_000, 50_000)
JOBS = 5_000
BATCH = 100
SINGLES = 100
QUESTIONS = 5
LIST_FIELDS = wire_fields(DEFAULT)


def main(counts: tuple[int, ...] = COUNTS) -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        folder = Path(scratch)
        with Cluster(folder / "submissions") as cluster:
            cluster.start()
            pause_all(cluster)
            _submissions(cluster, folder)
            _questions(cluster)
        for count in counts:
            with Cluster(folder / f"queue{count}") as cluster:
                _restart(cluster, count)


def _submissions(cluster: Cluster, folder: Path) -> None:
    fresh = numbers(1)

    def submit_one() -> None:
        cluster.luxi(SubmitJob((startup(next(fresh)),)))

    def submit_all() -> None:
        for _ in range(JOBS // BATCH):
            cluster.luxi(SubmitManyJobs(tuple((startup(next(fresh)),) for _ in range(BATCH))))

    bare = numbers()

    def bare_folder() -> Path:
        made = folder / f"bare{next(bare)}"
        made.mkdir()
        return made

    alone = bare_folder()
    show("single submission, nothing queued", median_ms(submit_one, SINGLES), "ms")
    show("the same files in a bare loop", median_ms(lambda: bare_submissions(alone, 1, 1), SINGLES), "ms")

    def bare_rate() -> float:
        made = bare_folder()
        return JOBS / seconds(lambda: bare_submissions(made, JOBS, BATCH))

    # before and after, as the disk changes from minute to minute
    before, rate, after = bare_rate(), JOBS / seconds(submit_all), bare_rate()
    limit = (before + after) / 2
    show(f"bare loop: the files of {JOBS} jobs, {BATCH} at a time", limit, "jobs/s")
    show(f"submission of {JOBS} jobs, {BATCH} at a time", rate, "jobs/s", f"{rate / limit:.2f} of the bare loop")
    show(f"single submission, {JOBS} queued", median_ms(submit_one, SINGLES), "ms")
    show("the same files in a bare loop", median_ms(lambda: bare_submissions(alone, 1, 1), SINGLES), "ms")


def _questions(cluster: Cluster) -> None:
    ids = tuple(row[0] for row in cluster.luxi_wire(QueryJobs(None, ("id",))))
    questions = {
        f"the list's fields of {len(ids)} jobs": QueryJobs(None, LIST_FIELDS),
        "all their fields": QueryJobs(None, tuple(FIELDS)),
        f"the list's fields of {JOBS} of them, named": QueryJobs(ids[:JOBS], LIST_FIELDS),
    }
    for what, question in questions.items():
        answer = cluster.luxi(question)
        bare = median_ms(lambda rows=answer: orjson.loads(orjson.dumps(rows)), QUESTIONS)  # type: ignore[misc]
        spent = median_ms(lambda asked=question: cluster.luxi(asked), QUESTIONS)  # type: ignore[misc]
        show(what, spent, "ms", f"{bare:.1f} ms to write and read the same JSON")
    _beside_lists(cluster)


def _beside_lists(cluster: Cluster) -> None:
    """Single submissions while another client lists all fields of all jobs over and over."""
    fresh = numbers(1_000_000)
    asking = [sys.executable, "-P", "-c", _LIST_ON, str(cluster.paths.query_socket), ",".join(FIELDS)]
    with subprocess.Popen(asking, stdout=subprocess.PIPE) as lister:
        assert lister.stdout is not None
        lister.stdout.readline()
        spent = median_ms(lambda: cluster.luxi(SubmitJob((startup(next(fresh)),))), QUESTIONS * 4)
        lister.terminate()
    show("single submission meanwhile", spent, "ms")


# a client that asks again as soon as it has the whole reply, and looks at none
_LIST_ON = """
import json, socket, sys
path, fields = sys.argv[1:]
request = json.dumps({"method": "QueryJobs", "args": [None, fields.split(",")]}).encode() + b"\\3"
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect(path)
    while True:
        sock.sendall(request)
        while (data := sock.recv(2**20)) and not data.endswith(b"\\3"):
            print(len(data), flush=True) if data[:1] == b"{" else None
"""


def _restart(cluster: Cluster, count: int) -> None:
    cluster.start()
    pause_all(cluster)
    cluster.kill("luxid")
    put_jobs(cluster.paths, count)
    bare = seconds(lambda: bare_reads(cluster.paths))

    def start_and_ask() -> None:
        cluster.start("luxid")
        assert len(cluster.luxi(QueryJobs(None, LIST_FIELDS))) == count

    def restart() -> float:
        if "luxid" in cluster.daemons:
            cluster.kill("luxid")
        return seconds(start_and_ask)

    show(f"start of luxid with {count} jobs, to the first full answer", median(restart), "s", f"{bare:.2f} s bare read")
    show(f"its memory with {count} jobs", memory_mib(cluster.daemons["luxid"].pid), "MiB")
