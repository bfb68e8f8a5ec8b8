"""Waiting for a job to wait for its locks."""

from common.ids import JobId
from common.queue.explanation import Reason, WaitsForLock
from protocol.luxi.why import ExplainJobs
from tests.support.cluster import Cluster
from tests.support.wait import wait_until


def wait_for_lock(cluster: Cluster, job_id: int) -> None:
    """Wait until luxid tells both: the job is *waiting*, and its request for locks is pending."""

    def reasons() -> tuple[Reason, ...]:
        return cluster.luxi(ExplainJobs((JobId(job_id),)))[0] or ()

    def waits() -> bool:
        # the two come by different ways
        return cluster.status(job_id) == "waiting" and any(isinstance(each, WaitsForLock) for each in reasons())

    wait_until(waits, what=f"job {job_id} waits for a lock", state=reasons)
