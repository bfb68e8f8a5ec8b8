"""The batch of a job, as its reason trail names it (DESIGN section 13, "Fleet")."""

import pytest

from common.ids import JobId
from common.queue.jobs import Job, JobOp
from common.queue.reasons import BATCH_SOURCE, MOST_JOBS, Batch, batch_entry, batch_of


def job_with(*trail: object) -> Job:
    return Job(JobId(1), (JobOp({"reason": [["gnt:user", "id=x;place=1;jobs=1", 1], *trail]}),))


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (Batch("5f2c", 3, 20), "id=5f2c;place=3;jobs=20"),
        (Batch("5f2c", 3, 20, at_most=2), "id=5f2c;place=3;jobs=20;at-most=2"),
        (Batch("5f2c", 3, 20, failures=0), "id=5f2c;place=3;jobs=20;failures=0"),
        (Batch("5f2c", 3, 20, 2, 1), "id=5f2c;place=3;jobs=20;at-most=2;failures=1"),
    ],
)
def test_a_batch_is_read_as_it_was_written(batch: Batch, text: str) -> None:
    assert batch.text == text
    assert batch_of(job_with(batch_entry(batch, 5).to_wire())) == batch


def test_a_limit_above_the_number_of_jobs_does_not_make_the_batch_unreadable() -> None:
    batch = Batch("a", 1, 2, at_most=10**9, failures=10**9, each=("host",))

    assert batch_of(job_with(batch_entry(batch, 5).to_wire())) == Batch("a", 1, 2, MOST_JOBS, MOST_JOBS, ("host",))


def test_at_most_none_at_once_is_no_limit_as_it_would_hold_them_for_ever() -> None:
    assert batch_of(job_with([BATCH_SOURCE, "id=a;place=1;jobs=2;at-most=0", 1])) == Batch("a", 1, 2)


@pytest.mark.parametrize(
    "entry",
    [
        ["gnt:user", "id=a;place=1;jobs=2", 1],
        [BATCH_SOURCE, "id=;place=1;jobs=2", 1],
        [BATCH_SOURCE, "id=a", 1],
        [BATCH_SOURCE, 5, 1],
        [BATCH_SOURCE],
        7,
        None,
        [BATCH_SOURCE, "id=a;place=1;jobs=2;at-most=-1", 1],
        [BATCH_SOURCE, "id=a;place=1;jobs=2\n", 1],
    ],
)
def test_anything_else_names_no_batch(entry: object) -> None:
    assert batch_of(job_with(entry)) is None
