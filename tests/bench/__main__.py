"""make bench: figures of this machine, this minute; compare them with the bare loops beside them.

Every figure is the median of several runs on a fresh cluster, with fsync on. By name (`python -m tests.bench queue`):
copies      jobs with two candidates beside none; a change of a configuration with 50 nodes
config      readers of configurations of up to 4 MiB; part of what is measured without a name
queue       submissions to, questions about and restarts with up to 50,000 queued jobs
scheduling  the choice of the next job among up to 100,000; no disk, no processes
feed        500 subscribers of changes beside 100,000 queued jobs
waiting     2,000 clients that wait for changes of running jobs
confd       answers a second to signed questions
history     the index of 100,000 archived jobs: making it, questions, and the removal of half of the jobs
http        requests a second of rapid, long lists, and a crowd of clients that wait and vanish
nodecommands  commands on nodes beside the same on the master; 500 at once on one node
lease       jobs and submissions on three nodes with an etcd of three members, beside one machine
nodes       queries of live data of up to 100 nodes, of which some hang; the nodes are simulated in one process
crowds      a thousand jobs, waiters and clients at once, 100,000 archived jobs, 20,000 opcodes, a mixed load for leaks
beside      locks and jobs in alternating rounds beside an older Gantry, a real Ganeti, or both:
            `beside [COMMIT] [--ganeti FOLDER] [--rounds N] [--parts WORD]`
counts      turns of epoll, futexes, page faults and functions that a lock call and a job take
Counts may follow history, queue, scheduling, feed and waiting. `--results FILE` before the name keeps
the figures in a file.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.bare.loops import bare_jobs, bare_writes
from tests.bench.beside import main as beside
from tests.bench.commands import bare_start_ms, list_jobs_ms
from tests.bench.confd import main as confd
from tests.bench.config import main as config
from tests.bench.counts import main as count_work
from tests.bench.crowds import main as crowds
from tests.bench.feed import main as feed
from tests.bench.figures import RUNS, median, show
from tests.bench.history import main as history
from tests.bench.http import main as http
from tests.bench.jobs import chain, cpu_s, many_jobs, one_job, page_faults
from tests.bench.locks import bare_lines, death_to_free, hand_overs, lock_updates, update_beside_held
from tests.bench.machines.copies import main as copies
from tests.bench.machines.lease import main as lease
from tests.bench.machines.nodecommands import main as nodecommands
from tests.bench.machines.nodes import main as nodes
from tests.bench.queue import COUNTS as queue_counts
from tests.bench.queue import main as queue
from tests.bench.results import keep
from tests.bench.scheduling import COUNTS as scheduling_counts
from tests.bench.scheduling import main as scheduling
from tests.bench.waiting import main as waiting
from tests.support.cluster import Cluster

JOBS = 200
CHAIN = 20
UPDATES = 2000
COMMANDS = 20


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        folder = Path(scratch)
        limit = median(lambda: bare_jobs(folder, JOBS))
        show("bare loop: fork, 4 durable writes, exit", limit, "jobs/s")
        writes = median(lambda: bare_writes(folder, UPDATES))
        show("bare loop: durable replacement of a file", writes, "/s")
        lines = median(lambda: bare_lines(folder, UPDATES))
        show("bare loop: durable line in a file", lines, "/s")
        with Cluster(folder / "cluster") as cluster:
            cluster.start()
            listed, bare = list_jobs_ms(cluster, COMMANDS), bare_start_ms(COMMANDS)
            show("gnt-job list, empty queue", listed, "ms", f"{bare:.1f} ms for the start of an interpreter")
            alone = median(lambda: one_job(cluster, 50))
            show("one no-op job, submit to end seen", alone * 1000, "ms")
            linked = median(lambda: chain(cluster, CHAIN))
            show(f"chain of {CHAIN} dependent no-op jobs", linked * 1000, "ms")
            cpu_before, faults_before = cpu_s(cluster), page_faults(cluster)
            rate = median(lambda: many_jobs(cluster, JOBS))
            spent = (cpu_s(cluster) - cpu_before) / (JOBS * RUNS)
            faults = (page_faults(cluster) - faults_before) / (JOBS * RUNS)
            show(f"{JOBS} no-op jobs", rate, "jobs/s", f"{rate / limit:.2f} of the bare loop")
            show("CPU of all processes for one of them", spent * 1000, "ms")
            show("page faults of the fork server and the process of one of them", faults, "")
            for connections in (1, 4, 20):
                updates = median(lambda n=connections: lock_updates(cluster, UPDATES, n))  # type: ignore[misc]
                show(
                    f"lock updates, {connections} connection(s)",
                    updates,
                    "/s",
                    f"{updates / lines:.2f} of the bare loop of lines",
                )
            turns = median(lambda: hand_overs(cluster, UPDATES))
            show(
                "hand-over of a contended lock, two owners",
                turns,
                "/s",
                f"{turns / lines:.2f} of the bare loop of lines",
            )
            show(
                "death of a holder, until the next one has its lock",
                median(lambda: death_to_free(cluster, 20)) * 1000,
                "ms",
            )
        few, many = (update_beside_held(folder / f"held{held}", held, 200) for held in (100, 100_000))
        show("lock update while 100 locks are held", few * 1000, "ms")
        show("lock update while 100,000 locks are held", many * 1000, "ms", f"{many / few:.1f} times as long")
        own = update_beside_held(folder / "own", 100_000, 200, by_itself=True)
        show("lock update of an owner that holds 100,000", own * 1000, "ms", f"{own / few:.1f} times as long")
    config()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[:1] == ["--results"] and len(arguments) > 1:
        keep(Path(arguments[1]), " ".join(arguments[2:]) or "jobs and locks")
        arguments = arguments[2:]
    match arguments:
        case []:
            main()
        case ["beside", *sides]:
            beside(sides)
        case ["counts"]:
            count_work()
        case ["confd"]:
            confd()
        case ["copies"]:
            copies()
        case ["config"]:
            config()
        case ["queue", *counts]:
            queue(tuple(map(int, counts)) or queue_counts)
        case ["scheduling", *counts]:
            scheduling(tuple(map(int, counts)) or scheduling_counts)
        case ["history", *counts]:
            history(*map(int, counts))
        case ["http", *parts]:
            http(parts)
        case ["lease"]:
            lease()
        case ["nodecommands"]:
            nodecommands()
        case ["nodes"]:
            nodes()
        case ["crowds", *parts]:
            crowds(parts)
        case ["feed", *counts]:
            feed(*map(int, counts))
        case ["waiting", *counts]:
            waiting(*map(int, counts))
        case _:
            sys.exit(__doc__)
