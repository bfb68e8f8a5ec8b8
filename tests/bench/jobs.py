"""No-op jobs through real daemons: one alone, and two hundred at once."""

import resource
import statistics
import time

from common.locks import JobId
from protocol.luxi import SubmitJob, SubmitManyJobs, WaitForJobChange
from tests.support.cluster import Cluster

NO_OP = {"OP_ID": "OP_TEST_DUMMY"}
FINAL = ("success", "error", "canceled")


def one_job(cluster: Cluster, count: int) -> float:
    """Median seconds from the submission of a job until its waiter sees the end."""
    return statistics.median(_one(cluster) for _ in range(count))


def many_jobs(cluster: Cluster, count: int) -> float:
    """Jobs per second from one submission of `count` jobs until the last is final."""
    began = time.perf_counter()
    answers = cluster.luxi(SubmitManyJobs(((NO_OP,),) * count))
    for answer in answers:
        _wait(cluster, JobId(answer[1]))
    return count / (time.perf_counter() - began)


def cpu_s() -> float:
    """CPU seconds of all children that have ended: the daemons, with the job processes that they reaped."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _one(cluster: Cluster) -> float:
    began = time.perf_counter()
    _wait(cluster, cluster.luxi(SubmitJob((NO_OP,))))
    return time.perf_counter() - began


def _wait(cluster: Cluster, job_id: JobId) -> None:
    known = None
    while known is None or known[0] not in FINAL:
        known, _ = cluster.luxi(WaitForJobChange(job_id, ("status",), known, None, 60))
    assert known == ["success"], known
