"""Reason buckets: what names one, and who has a place (luxid.md 5.5; DESIGN section 11)."""

from typing import Any

import pytest

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import Batch, RateBucket, batch_entry, rate_bucket, rate_buckets
from daemons.luxid.core.queue.jobqueue import JobQueue

NOW = 1e9


@pytest.mark.parametrize(
    ("reason", "text", "limit"),
    [
        ("rate-limit:1", "1", 1),
        ("rate-limit:1:", "1:", 1),
        ("rate-limit:10:disk replacements", "10:disk replacements", 10),
        ("rate-limit:03:x", "03:x", 3),
        ("rate-limit:2:a:b\nc", "2:a:b\nc", 2),
    ],
)
def test_number_and_label_as_written_are_the_bucket(reason: str, text: str, limit: int) -> None:
    assert rate_bucket(reason) == RateBucket(text, limit)


@pytest.mark.parametrize(
    "reason",
    [
        "rate-limit:", "rate-limit:0", "rate-limit:00:x", "rate-limit:-1", "rate-limit:+1", "rate-limit: 1",
        "rate-limit:1 ", "rate-limit:1x", "rate-limit:1.0", "rate-limit:0x1", "rate-limit:(1)", "rate-limit:\u0661",
        "rate-limit:1\n", "Rate-limit:1", " rate-limit:1", "rate-limit", "limit:1", "rate-limit:" + "9" * 5000,
    ],
)  # fmt: skip
def test_anything_else_limits_nothing(reason: str) -> None:
    assert rate_bucket(reason) is None


def test_the_buckets_of_all_opcodes_count_once_each_and_bad_trails_have_none() -> None:
    trails: list[Any] = [
        [["gnt:user", "rate-limit:1:a", 1], ["x", "rate-limit:2:b", 2]],
        [["gnt:user", "rate-limit:1:a", 3]],
        None, 5, "rate-limit:1:c", [["x"], 7, None, ["x", 8, 9]],
    ]  # fmt: skip

    assert rate_buckets(trails) == (RateBucket("1:a", 1), RateBucket("2:b", 2))


def limited(job_id: int, *reasons: str) -> Job:
    return Job(JobId(job_id), (JobOp({"reason": [["gnt:user", reason, 1] for reason in reasons]}),))


def start(queue: JobQueue) -> tuple[int, ...]:
    started = queue.decide(NOW).start
    for job_id in started:
        queue.started(job_id)
    return started


def test_of_a_bucket_as_many_run_as_its_number_says() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    for job_id in range(1, 6):
        queue.add(limited(job_id, "rate-limit:2:x"))
    queue.add(limited(6, "rate-limit:2:y"))

    assert start(queue) == (1, 2, 6)
    queue.end(JobId(1), JobState.SUCCESS)
    assert start(queue) == (3,)


def test_a_job_of_two_buckets_needs_a_place_in_both_and_takes_none_until_it_starts() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    queue.add(limited(1, "rate-limit:1:x"))
    queue.add(limited(2, "rate-limit:1:x", "rate-limit:1:y"))
    queue.add(limited(3, "rate-limit:1:y"))

    assert start(queue) == (1, 3)
    queue.end(JobId(1), JobState.SUCCESS)
    assert start(queue) == ()
    queue.end(JobId(3), JobState.ERROR)
    assert start(queue) == (2,)


def test_a_start_that_came_to_nothing_gives_its_place_back() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    queue.add(limited(1, "rate-limit:1:x"))
    queue.add(limited(2, "rate-limit:1:x"))
    assert queue.decide(NOW).start == (1,)

    queue.hold(JobId(1))

    assert queue.decide(NOW).start == (2,)


def test_places_follow_from_who_runs_after_a_restart() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    queue.adopt(limited(1, "rate-limit:2:x"))
    queue.adopt(limited(2, "rate-limit:2:x"))
    queue.add(limited(3, "rate-limit:2:x"))

    assert start(queue) == ()
    queue.end(JobId(2), JobState.ERROR)
    assert start(queue) == (3,)


def test_a_job_that_is_continued_takes_its_place_anew() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    queue.add(limited(1, "rate-limit:1:x"))
    queue.add(limited(2, "rate-limit:1:x"))
    assert start(queue) == (1,)

    queue.hold(JobId(1))
    queue.add(limited(1, "rate-limit:1:x"))

    assert start(queue) == (1,)


def of_batch(job_id: int, at_most: int | None) -> Job:
    trail = [batch_entry(Batch("b1", job_id, 9, at_most), 1).to_wire()]
    return Job(JobId(job_id), (JobOp({"reason": trail}),))


def change_waiting(queue: JobQueue, at_most: int, *job_ids: int) -> None:
    for job_id in job_ids:
        queue.hold(JobId(job_id))
        queue.add(of_batch(job_id, at_most))


def test_jobs_of_a_batch_count_against_a_limit_that_those_that_wait_got_later() -> None:
    queue = JobQueue(100, 100, lambda _: None)
    for job_id in range(1, 9):
        queue.add(of_batch(job_id, 2))
    assert start(queue) == (1, 2)

    change_waiting(queue, 3, 3, 4, 5, 6, 7, 8)
    assert start(queue) == (3,)
    change_waiting(queue, 1, 4, 5, 6, 7, 8)
    assert start(queue) == ()
    for job_id in (1, 2):
        queue.end(JobId(job_id), JobState.SUCCESS)
        assert start(queue) == ()
    queue.end(JobId(3), JobState.SUCCESS)
    assert start(queue) == (4,)
    queue.end(JobId(4), JobState.SUCCESS)
    assert queue.limit_usage.counts() == (0, 0)
