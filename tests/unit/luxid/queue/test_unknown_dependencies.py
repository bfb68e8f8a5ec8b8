"""A job that depends on one whose state cannot be told waits until it can (DESIGN section 11)."""

import pytest

from common.errors import Unavailable
from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.queue.entry import Decisions, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue

TARGET, JOB = JobId(1), JobId(2)


def unreadable(job_id: JobId) -> JobState | None:
    raise Unavailable(f"job {job_id} cannot be read")


def dependent(job_id: JobId = JOB) -> Job:
    return Job(job_id, (JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": [[TARGET, ["success"]]]}),))


@pytest.fixture
def queue() -> JobQueue:
    return JobQueue(4, 4, unreadable)


def test_a_job_is_blocked_while_the_state_cannot_be_told_and_it_is_asked_for_once(queue: JobQueue) -> None:
    queue.add(dependent())

    decisions = queue.decide(0.0)

    assert (decisions.unknown, decisions.doomed, decisions.start) == ((TARGET,), (), ())
    assert queue.phase(JOB) is Phase.BLOCKED
    assert queue.waits_for(JOB) == (TARGET,)
    assert queue.decide(0.0) == Decisions()


def test_a_job_goes_on_when_the_state_is_told(queue: JobQueue) -> None:
    queue.add(dependent())
    queue.decide(0.0)

    queue.found(TARGET, JobState.SUCCESS)

    decisions = queue.decide(0.0)
    assert (decisions.unblocked, decisions.start) == ((JOB,), (JOB,))


@pytest.mark.parametrize(
    ("state", "reason"),
    [(JobState.ERROR, "ended with status 'error'"), (None, "neither in the queue nor in the archive")],
)
def test_a_job_is_doomed_only_by_what_was_found(queue: JobQueue, state: JobState | None, reason: str) -> None:
    queue.add(dependent())
    queue.decide(0.0)

    queue.found(TARGET, state)

    (doomed,) = queue.decide(0.0).doomed
    assert doomed.job_id == JOB
    assert reason in doomed.reason


def test_a_state_that_nobody_waits_for_any_more_changes_nothing(queue: JobQueue) -> None:
    queue.add(dependent())
    queue.decide(0.0)
    queue.hold(JOB)
    queue.end(JOB, JobState.CANCELED)

    assert not queue.is_awaited(TARGET)
    queue.found(TARGET, JobState.ERROR)

    assert queue.decide(0.0).doomed == ()
