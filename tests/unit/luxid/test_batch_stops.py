"""Batches: at most some jobs at once, and none begins after too many failures (DESIGN section 13, "Fleet").

The property test of the schedule has the same against a naive twin.
"""

import pytest

from common.ids import JobId
from common.queue.explanation import BatchFull
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import Batch, JobOwner, batch_entry, owner_entries
from common.words.why import in_words
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import explain

NOW = 1e9


def job_of(job_id: int, *, at_most: int | None = None, failures: int | None = None, uid: int | None = None) -> Job:
    owner = owner_entries(JobOwner(uid, ""), 1) if uid is not None else ()
    trail = (batch_entry(Batch("b", job_id, 9, at_most, failures), 1), *owner)
    return Job(JobId(job_id), (JobOp({"reason": [entry.to_wire() for entry in trail]}),))


def queue_with(*jobs: Job) -> JobQueue:
    queue = JobQueue(100, 100, lambda _: None)
    queue.add_all(jobs)
    return queue


def start(queue: JobQueue) -> tuple[int, ...]:
    started = queue.decide(NOW).start
    for job_id in started:
        queue.started(job_id)
    return started


def test_a_free_place_is_taken_by_the_next_job_at_once() -> None:
    queue = queue_with(*(job_of(job_id, at_most=2) for job_id in range(1, 6)))

    assert start(queue) == (1, 2)
    queue.end(JobId(2), JobState.ERROR)
    assert start(queue) == (3,)


def test_a_job_without_a_place_says_so() -> None:
    queue = queue_with(*(job_of(job_id, at_most=2) for job_id in range(1, 5)))
    start(queue)

    [reason] = (each for each in explain(queue, JobId(4), NOW, lambda _: None) if isinstance(each, BatchFull))

    assert reason == BatchFull("b", 2, 2, (JobId(1), JobId(2)))
    assert in_words(reason, NOW) == "waits for a place: 2 of its batch run, at most 2: job/1, job/2"


def test_a_job_whose_process_died_keeps_its_place_until_its_end_is_known() -> None:
    queue = queue_with(job_of(1, at_most=1), job_of(2, at_most=1))
    start(queue)

    queue.hold(JobId(1))
    assert start(queue) == ()
    queue.end(JobId(1), JobState.ERROR)

    assert start(queue) == (2,)


@pytest.mark.parametrize("phase", [Phase.READY, Phase.BLOCKED])
def test_a_job_that_waits_again_gives_its_place_back(phase: Phase) -> None:
    queue = queue_with(job_of(1, at_most=1), job_of(2, at_most=1), Job(JobId(3), (JobOp({}),)))
    assert start(queue) == (1, 3)

    queue.hold(JobId(1))
    done = JobOp(job_of(1, at_most=1).ops[0].input, state=JobState.SUCCESS)
    depends = [[3, []]] if phase is Phase.BLOCKED else []
    queue.add(Job(JobId(1), (done, JobOp({"depends": depends}))))

    assert queue.phase(JobId(1)) is phase
    assert start(queue) == ((1,) if phase is Phase.READY else (2,))


def test_places_follow_from_who_runs_after_a_restart() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    queue.adopt(job_of(1, at_most=1))
    queue.add_all([job_of(2, at_most=1)])

    assert start(queue) == ()


def test_after_a_failure_nothing_more_begins_and_what_runs_goes_on() -> None:
    queue = queue_with(*(job_of(job_id, at_most=2, failures=0) for job_id in range(1, 6)))
    start(queue)

    queue.end(JobId(1), JobState.ERROR)
    decisions = queue.decide(NOW)

    assert decisions.start == ()
    assert [each.job_id for each in decisions.doomed] == [3, 4, 5]
    assert {each.reason for each in decisions.doomed} == {"canceled before it began, as job 1 of its batch failed"}
    assert all(each.is_canceled and each.by_batch for each in decisions.doomed)
    assert queue.phase(JobId(2)) is Phase.RUNNING


def test_so_many_failures_are_borne_and_cancellations_are_none() -> None:
    queue = queue_with(*(job_of(job_id, failures=1) for job_id in range(1, 4)), job_of(9, at_most=1, failures=1))
    for job_id, state in ((1, JobState.ERROR), (2, JobState.CANCELED), (3, JobState.SUCCESS)):
        queue.end(JobId(job_id), state)

    assert queue.decide(NOW).doomed == ()


def test_a_job_whose_file_was_being_rewritten_does_not_begin_either() -> None:
    queue = queue_with(job_of(1, failures=0), job_of(2, failures=0))
    queue.hold(JobId(2))
    queue.end(JobId(1), JobState.ERROR)
    assert queue.decide(NOW).doomed == ()

    queue.add(job_of(2, failures=0))

    assert [each.job_id for each in queue.decide(NOW).doomed] == [2]


def test_failures_count_after_a_restart() -> None:
    queue = queue_with(job_of(2, failures=0))
    queue.failed_before([job_of(1, failures=0)])

    assert [each.job_id for each in queue.decide(NOW).doomed] == [2]


def test_a_batch_of_another_user_with_the_same_id_takes_no_places() -> None:
    queue = queue_with(*(job_of(job_id, at_most=1, uid=1000 + job_id % 2) for job_id in range(1, 5)))

    assert start(queue) == (1, 2)
    queue.end(JobId(2), JobState.SUCCESS)
    assert start(queue) == (4,)


def test_a_batch_of_another_user_with_the_same_id_stops_nothing() -> None:
    queue = queue_with(job_of(1, failures=0, uid=1001), job_of(2, failures=0))

    queue.end(JobId(1), JobState.ERROR)

    assert queue.decide(NOW).doomed == ()


def test_a_job_that_has_a_process_and_has_not_begun_is_paused_and_ends_when_it_comes_back() -> None:
    queue = queue_with(*(job_of(job_id, failures=0) for job_id in range(1, 4)))
    assert queue.decide(NOW).start == (1, 2, 3)
    queue.started(JobId(1))
    queue.started(JobId(2))

    queue.end(JobId(1), JobState.ERROR)
    assert queue.decide(NOW).pause == (2,)
    # it was being started when its batch stopped
    queue.started(JobId(3))
    assert queue.decide(NOW).pause == (3,)
    for job_id in (2, 3):
        queue.hold(JobId(job_id))
        queue.add(job_of(job_id, failures=0))

    decisions = queue.decide(NOW)
    assert [each.job_id for each in decisions.doomed] == [2, 3]
    assert (decisions.start, decisions.pause) == ((), ())
