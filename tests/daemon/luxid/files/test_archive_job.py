"""ArchiveJob and AutoArchiveJobs (luxid.md 2.6)."""

import pytest

from common.errors import RemoteError
from common.ids import JobId
from protocol.luxi.jobs import ArchiveJob, AutoArchiveJobs, CancelJob
from protocol.luxi.queries import QueryJobs
from tests.daemon.luxid.ops import after, delay, dummy
from tests.support.cluster import Cluster


def test_a_final_job_moves_to_the_archive_and_is_found_there_by_its_id(cluster: Cluster) -> None:
    job_id = cluster.submit(dummy(result="kept"))
    cluster.wait(job_id)

    assert cluster.luxi(ArchiveJob(job_id)) is True

    assert not cluster.paths.job_file(job_id).exists()
    assert cluster.paths.archived_job_file(job_id).exists()
    assert cluster.luxi(QueryJobs(None, ("id",))) == ()
    assert cluster.job(job_id, "archived", "status", "opresult") == (True, "success", ["kept"])
    assert cluster.luxi(ArchiveJob(job_id)) is False


def test_jobs_that_are_not_final_or_not_there_stay(cluster: Cluster) -> None:
    running = cluster.submit(delay(60))
    queued = cluster.submit(dummy(depends=after(running)))

    assert [cluster.luxi(ArchiveJob(job_id)) for job_id in (running, queued, JobId(99))] == [False] * 3


def test_a_job_canceled_in_the_queue_can_be_archived(cluster: Cluster) -> None:
    """luxid.md 13, BUG-2."""
    queued = cluster.submit(dummy(depends=after(cluster.submit(delay(60)))))
    cluster.luxi(CancelJob(queued))

    assert cluster.luxi(ArchiveJob(queued)) is True


def test_a_negative_age_archives_all_that_is_final(cluster: Cluster) -> None:
    """luxid.md 13, BUG-1."""
    job_ids = cluster.submit_many(*[(dummy(),)] * 5)
    cluster.wait(*job_ids)
    running = cluster.submit(delay(60))

    assert cluster.luxi_wire(AutoArchiveJobs(-1, 60)) == [5, 0]
    assert cluster.luxi(QueryJobs(None, ("id",))) == ((running,),)


def test_young_jobs_stay(cluster: Cluster) -> None:
    cluster.wait(cluster.submit(dummy()))

    assert cluster.luxi_wire(AutoArchiveJobs(3600, 60)) == [0, 0]


def test_without_time_no_job_is_looked_at(cluster: Cluster) -> None:
    cluster.wait(*cluster.submit_many((dummy(),), (dummy(),)))

    assert cluster.luxi_wire(AutoArchiveJobs(-1, 0)) == [0, 2]


def test_a_job_whose_file_was_removed_stops_no_other_from_being_archived(cluster: Cluster) -> None:
    jobs = cluster.submit_many(*[(dummy(),)] * 3)
    cluster.wait(*jobs)
    cluster.paths.job_file(jobs[0]).unlink()

    assert cluster.luxi_wire(AutoArchiveJobs(-1, 10)) == [2, 0]

    assert [cluster.paths.archived_job_file(job_id).exists() for job_id in jobs] == [False, True, True]
    assert f"job.file_missing job={jobs[0]}" in cluster.log("luxid")
    assert cluster.luxi(QueryJobs(None, ("id",))) == ()
    assert cluster.luxi_wire(AutoArchiveJobs(-1, 10)) == [0, 0]


def test_the_archiving_of_a_job_whose_file_was_removed_says_so(cluster: Cluster) -> None:
    gone, there = cluster.submit_many(*[(dummy(),)] * 2)
    cluster.wait(gone, there)
    cluster.paths.job_file(gone).unlink()

    with pytest.raises(RemoteError, match=rf"the file of job {gone} is not there any more") as refusal:
        cluster.luxi(ArchiveJob(gone))

    assert refusal.value.code == "not_found"
    assert cluster.luxi(ArchiveJob(there)) is True
