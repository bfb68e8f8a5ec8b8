"""luxid is killed while it cancels many jobs in one call: each job is queued or canceled, and the call can be repeated.

Source: DESIGN section 3, invariant 5; section 16.
"""

import threading

from common.errors import GantryError
from common.ids import JobId
from common.queue.jobs import JobState
from common.queue.terms import Hold, JobTerms
from protocol.blocking import BlockingClient
from protocol.luxi.jobs import CancelJobs, ChangeResult
from tests.daemon.luxid.ops import dummy, read_job
from tests.support.cluster import Cluster
from tests.support.deferred import stated
from tests.support.wait import PATIENCE_S, wait_until

# several groups of writes
JOBS = 600


def test_what_is_answered_is_canceled_and_nothing_is_lost(cluster: Cluster) -> None:
    ids = cluster.submit_many(*[(dummy(reason=stated(JobTerms(hold=Hold()))),)] * JOBS)
    answers: list[ChangeResult] = []
    call = threading.Thread(target=_cancel, args=(cluster, ids, answers))
    call.start()

    wait_until(lambda: read_job(cluster, ids[0]).state is JobState.CANCELED, what="some are canceled")
    cluster.kill("luxid")
    call.join(PATIENCE_S)
    cluster.start("luxid")

    states = {read_job(cluster, job_id).state for job_id in ids}
    assert states <= {JobState.CANCELED, JobState.QUEUED}
    assert [cluster.status(job_id) for job_id in ids[:1]] == ["canceled"]
    if answers:
        assert states == {JobState.CANCELED}
    again = cluster.luxi(CancelJobs(tuple(ids)))
    final = {f"job {job_id} is already final (canceled)" for job_id in ids}
    assert all(each.is_done or each.message.partition(";")[0] in final for each in again)
    assert set(cluster.wait(*ids)) == {"canceled"}


def _cancel(cluster: Cluster, ids: list[JobId], answers: list[ChangeResult]) -> None:
    with BlockingClient(cluster.paths.query_socket) as client:
        try:
            done = client.call(CancelJobs(tuple(ids)))
            answers += done
        except GantryError:
            # it was killed before it answered
            return
