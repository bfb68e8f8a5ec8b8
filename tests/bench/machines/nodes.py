"""Queries of live data of many nodes, which are simulated in one process; `python -m tests.bench nodes`.

The time of a query includes what the simulated nodes need, on the same processors. Beside it, the same query without
live fields, and another call of luxid while the query waits for nodes that hang.
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from common.nodes.certificates import make_missing
from common.objects.kinds import QueryKind
from protocol.blocking import BlockingClient
from protocol.luxi.queries import Query, QueryResult
from tests.bench.figures import median_ms, seconds, show
from tests.bench.jobs import cpu_s
from tests.support.cluster import CHECKOUT, Cluster
from tests.support.machines.simulated import add_nodes
from tests.support.sockets.ports import free_port

QUERIES = 10
LIVE = ("name", "bootid", "mtotal", "mnode", "mfree", "ctotal")
STATIC = ("name", "pip", "role")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        for count in (1, 50, 100):
            _living(Path(scratch) / f"nodes{count}", count)
        _hanging(Path(scratch) / "hanging", 100, 20)


def _living(root: Path, count: int) -> None:
    with _cluster(root, count, 0) as cluster:
        first = seconds(lambda: _ask(cluster, LIVE)) * 1000
        before = cpu_s(cluster)
        live = median_ms(lambda: _ask(cluster, LIVE), QUERIES)
        spent = (cpu_s(cluster) - before) / QUERIES * 1000
        static = median_ms(lambda: _ask(cluster, STATIC), QUERIES)
        remark = f"first {first:.1f} ms; CPU of luxid and wconfd {spent:.1f} ms; without live fields {static:.1f} ms"
        show(f"live data of {count} nodes", live, "ms", remark)


def _hanging(root: Path, count: int, hanging: int) -> None:
    with _cluster(root, count, hanging) as cluster:
        replies: list[QueryResult] = []
        took: list[float] = []
        query = threading.Thread(target=lambda: took.append(seconds(lambda: replies.append(_ask(cluster, LIVE)))))
        query.start()
        beside = median_ms(lambda: _ask(cluster, STATIC), QUERIES)
        query.join()
        again = seconds(lambda: _ask(cluster, LIVE))
        told = sum(cell[0] == 0 for row in replies[0].data for cell in row[1:2])
        assert told == count - hanging, told
        remark = f"again {again:.1f} s; another query meanwhile {beside:.1f} ms"
        show(f"live data of {count} nodes of which {hanging} hang", took[0], "s", remark)


@contextlib.contextmanager
def _cluster(root: Path, count: int, hanging: int) -> Iterator[Cluster]:
    """A master whose nodes are simulated, the master's own included."""
    port = free_port()
    settings = f'[cluster]\nreplication = "nodes"\nnode_name = "node1.test"\n[noded]\nport = {port}\n'
    with Cluster(root, settings=settings) as cluster:
        make_missing(cluster.paths, "node1.test")
        others = {f"node{number}.test": f"127.0.0.{number}" for number in range(2, count + 1)}
        add_nodes(cluster.paths.config_data, others, master_candidate=False)
        with _simulated(root, port, count, hanging):
            cluster.start("wconfd", "luxid")
            yield cluster


@contextlib.contextmanager
def _simulated(root: Path, port: int, count: int, hanging: int) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.support.machines.simulated", root, port, count, hanging]
    with subprocess.Popen(
        list(map(str, command)), cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"listening\n"
        yield
        program.communicate()


def _ask(cluster: Cluster, fields: tuple[str, ...]) -> QueryResult:
    with BlockingClient(cluster.paths.query_socket) as client:
        return client.call(Query(QueryKind.NODE, fields))
