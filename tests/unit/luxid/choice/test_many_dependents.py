"""What one end costs when thousands wait for it (DESIGN section 6: no event scans all jobs)."""

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.queue.jobqueue import JobQueue

COUNT = 10_000


def job(job_id: int, *targets: int) -> Job:
    depends = [[target, ["success"]] for target in targets]
    return Job(JobId(job_id), (JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": depends}),))


def queue_with(*jobs: Job) -> JobQueue:
    queue = JobQueue(1, 1, lambda _: None)
    for each in jobs:
        queue.add(each)
    return queue


def test_ten_thousand_dependents_become_ready_by_one_event_and_nobody_else_is_looked_at() -> None:
    dependents = [job(job_id, 1) for job_id in range(2, COUNT + 2)]
    strangers = [job(job_id) for job_id in range(COUNT + 2, 2 * COUNT + 2)]
    queue = queue_with(job(1), *dependents, *strangers)
    before = queue.touched

    queue.end(JobId(1), JobState.SUCCESS)
    decisions = queue.decide(1.0, may_start=False)

    # once for the end, once for its place among the ready ones; the job that ended; never the strangers
    assert queue.touched - before <= 2 * COUNT + 5
    assert decisions.unblocked == tuple(each.job_id for each in dependents)
    assert queue.counts().blocked == 0


def test_an_end_that_nobody_waits_for_touches_nobody() -> None:
    queue = queue_with(job(1), *[job(job_id, 2) for job_id in range(3, COUNT)], job(2))
    before = queue.touched

    queue.end(JobId(1), JobState.SUCCESS)

    assert queue.touched - before <= 2


def test_ten_thousand_dependents_are_doomed_by_one_event() -> None:
    queue = queue_with(job(1), *[job(job_id, 1) for job_id in range(2, COUNT + 2)])

    queue.end(JobId(1), JobState.ERROR)

    assert len(queue.decide(1.0).doomed) == COUNT
    assert queue.decide(1.0).doomed == ()
