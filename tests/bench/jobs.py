"""No-op jobs through real daemons: one alone, many at once, and a chain."""

import os
import statistics
import time
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from common.ids import JobId
from protocol.luxi.jobs import Accepted, SubmitJob, SubmitManyJobs
from protocol.luxi.queries import WaitForJobChange
from protocol.messages import Request
from tests.support.cluster import Cluster

R = TypeVar("R")
NO_OP: Final[dict[str, Any]] = {"OP_ID": "OP_TEST_DUMMY"}
FINAL = ("success", "error", "canceled")


class HasQueue(Protocol):
    """A cluster, of any kind."""

    def luxi(self, request: Request[R]) -> R:
        """Call luxid."""
        ...


def one_job(cluster: HasQueue, count: int, op: dict[str, Any] = NO_OP) -> float:
    """Median seconds from the submission of a job until its waiter sees the end."""
    return statistics.median(_one(cluster, op) for _ in range(count))


def many_jobs(cluster: HasQueue, count: int, op: dict[str, Any] = NO_OP) -> float:
    """Jobs per second from one submission of `count` jobs until the last is final."""
    began = time.perf_counter()
    for answer in cluster.luxi(SubmitManyJobs(((op,),) * count)):
        assert isinstance(answer, Accepted), answer
        wait_end(cluster, answer.job_id)
    return count / (time.perf_counter() - began)


def chain(cluster: Cluster, length: int) -> float:
    """Seconds from one submission of jobs, each of which depends on the one before it, until the last is final."""
    began = time.perf_counter()
    after = {**NO_OP, "depends": [[-1, ["success"]]]}
    job_ids = cluster.submit_many((NO_OP,), *((after,),) * (length - 1))
    wait_end(cluster, job_ids[-1])
    return time.perf_counter() - began


def page_faults(cluster: Cluster) -> int:
    """Page faults so far of the fork server and of the job processes that have ended; most of them copy a page."""
    fields = Path(f"/proc/{cluster.daemons['forkserver'].pid}/stat").read_text().rpartition(")")[2].split()
    # minflt and cminflt, fields 10 and 11 of proc(5)
    return int(fields[7]) + int(fields[8])


def cpu_s(cluster: Cluster) -> float:
    """CPU seconds so far of the daemons and of the job processes that have ended."""
    ticks = 0
    for daemon in cluster.daemons.values():
        # after the name in brackets: utime, stime, cutime, cstime are fields 14 to 17 of proc(5)
        fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _one(cluster: HasQueue, op: dict[str, Any]) -> float:
    began = time.perf_counter()
    wait_end(cluster, cluster.luxi(SubmitJob((op,))))
    return time.perf_counter() - began


def wait_end(cluster: HasQueue, job_id: JobId) -> None:
    known: tuple[object, ...] | None = None
    while known is None or known[0] not in FINAL:
        known = cluster.luxi(WaitForJobChange(job_id, ("status",), known, None, 60)).values
    assert known == ("success",), known
