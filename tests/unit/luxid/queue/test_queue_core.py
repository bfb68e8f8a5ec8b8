"""The queue's core: order of starts, dependencies, and what an event costs."""

import tracemalloc

import pytest

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.queue import entries
from daemons.luxid.core.queue.entry import Decisions, Phase
from daemons.luxid.core.queue.jobqueue import JobQueue

NOW = 1e9


def make_queue(slots: int = 100, **archived: JobState) -> JobQueue:
    states = {int(name.removeprefix("job_")): state for name, state in archived.items()}
    return JobQueue(slots, slots, states.get)


def make_job(job_id: int, *depends: tuple[int, list[str]], priority: int = 0) -> Job:
    op = JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": [list(each) for each in depends] or None}, priority=priority)
    return Job(JobId(job_id), (op,))


def run_all(queue: JobQueue) -> tuple[int, ...]:
    """Start what may start; who was started."""
    started = queue.decide(NOW).start
    for job_id in started:
        queue.started(job_id)
    return started


def test_jobs_start_by_priority_and_then_by_id() -> None:
    queue = make_queue(slots=3)
    for job in (make_job(1), make_job(2, priority=10), make_job(3, priority=-10), make_job(4)):
        queue.add(job)

    assert run_all(queue) == (3, 1, 4)
    queue.end(JobId(1), JobState.SUCCESS)
    assert run_all(queue) == (2,)


def test_a_starting_job_takes_a_slot_and_only_a_few_start_at_once() -> None:
    queue = JobQueue(10, 2, lambda _: None)
    for job_id in range(1, 6):
        queue.add(make_job(job_id))

    assert queue.decide(NOW).start == (1, 2)
    assert queue.decide(NOW).start == ()
    queue.started(JobId(1))
    assert queue.decide(NOW).start == (3,)


def test_while_nothing_may_start_verdicts_are_still_given() -> None:
    queue = make_queue(job_1=JobState.ERROR)
    queue.add(make_job(2))
    queue.add(make_job(3, (1, ["success"])))

    decisions = queue.decide(NOW, may_start=False)

    assert decisions.start == ()
    assert [each.job_id for each in decisions.doomed] == [3]
    assert queue.decide(NOW).start == (2,)


@pytest.mark.parametrize(
    ("wanted", "state", "phase"),
    [
        ([], JobState.SUCCESS, Phase.STARTING),
        ([], JobState.ERROR, Phase.STARTING),
        ([], JobState.CANCELED, Phase.HELD),
        (["success"], JobState.SUCCESS, Phase.STARTING),
        (["success"], JobState.ERROR, Phase.HELD),
        (["success"], JobState.CANCELED, Phase.HELD),
        (["canceled"], JobState.CANCELED, Phase.STARTING),
        (["canceled"], JobState.SUCCESS, Phase.HELD),
        (["error", "success"], JobState.ERROR, Phase.STARTING),
    ],
)
def test_the_end_of_a_named_job_decides(wanted: list[str], state: JobState, phase: Phase) -> None:
    """luxid.md 5.4: an empty list means success or error."""
    queue = make_queue()
    queue.add(make_job(1))
    queue.add(make_job(2, (1, wanted)))
    assert run_all(queue) == (1,)
    assert queue.phase(JobId(2)) is Phase.BLOCKED
    assert queue.waits_for(JobId(2)) == (1,)

    queue.end(JobId(1), state)
    queue.decide(NOW)

    assert queue.phase(JobId(2)) is phase


def test_a_canceled_dependency_cancels_and_another_failure_fails_with_a_text() -> None:
    queue = make_queue(job_1=JobState.CANCELED, job_2=JobState.ERROR)
    for job in (make_job(5, (1, [])), make_job(6, (2, ["success"])), make_job(7, (3, ["success"]))):
        queue.add(job)

    canceled, failed, missing = queue.decide(NOW).doomed

    assert canceled.is_canceled
    assert not failed.is_canceled
    assert failed.reason == "dependency job 2 ended with status 'error', not one of success"
    assert not missing.is_canceled
    assert missing.reason == "dependency job 3 is neither in the queue nor in the archive"


def test_verdicts_spread_along_a_chain_by_events() -> None:
    queue = make_queue()
    queue.add(make_job(1))
    for job_id in range(2, 6):
        queue.add(make_job(job_id, (job_id - 1, ["success"])))
    queue.decide(NOW)

    spread = []
    queue.end(JobId(1), JobState.ERROR)
    while doomed := queue.decide(NOW).doomed:
        spread += [each.job_id for each in doomed]
        for each in doomed:
            queue.end(each.job_id, JobState.ERROR)

    assert spread == [2, 3, 4, 5]


def test_only_dependencies_of_the_next_opcode_hold_a_job_back() -> None:
    """DESIGN section 11: each opcode waits for its own."""
    queue = make_queue()
    queue.add(make_job(1))
    first, second = JobOp({"depends": None}), JobOp({"depends": [[1, ["success"]]]})
    queue.add(Job(JobId(2), (first, second)))
    assert run_all(queue) == (1, 2)

    done = JobOp({"depends": None}, state=JobState.SUCCESS)
    queue.hold(JobId(2))
    queue.add(Job(JobId(2), (done, second)))

    assert queue.decide(NOW) == Decisions()
    assert queue.phase(JobId(2)) is Phase.BLOCKED
    queue.end(JobId(1), JobState.SUCCESS)
    assert queue.decide(NOW) == Decisions(start=(JobId(2),), unblocked=(JobId(2),))


def test_a_held_job_is_not_started_and_keeps_no_place_in_any_index() -> None:
    queue = make_queue()
    queue.add(make_job(1))
    queue.add(make_job(2, (1, [])))
    queue.hold(JobId(1))
    queue.hold(JobId(2))

    queue.end(JobId(1), JobState.SUCCESS)

    assert queue.decide(NOW) == Decisions()
    queue.add(make_job(2, (1, [])))
    assert queue.decide(NOW).start == (2,)


def test_found_jobs_may_name_each_other_in_any_order() -> None:
    queue = make_queue()

    queue.add_all([make_job(1, (2, ["success"])), make_job(2)])

    assert queue.decide(NOW) == Decisions(start=(JobId(2),))
    assert queue.phase(JobId(1)) is Phase.BLOCKED


def test_an_event_touches_the_same_few_jobs_however_many_wait() -> None:
    """DESIGN section 6: it never scans all jobs for one event."""

    def cost_of_an_end(queued: int) -> int:
        queue = make_queue(slots=1)
        for job_id in range(1, queued + 1):
            queue.add(make_job(job_id))
        queue.add(make_job(queued + 1, (1, ["success"])))
        run_all(queue)
        before = queue.touched
        queue.end(JobId(1), JobState.SUCCESS)
        run_all(queue)
        return queue.touched - before

    assert cost_of_an_end(20) == cost_of_an_end(2000) <= 5


def test_jobs_that_are_read_together_leave_no_room_where_they_were_held() -> None:
    queue, jobs = make_queue(), [make_job(job_id) for job_id in range(1, 2001)]
    tracemalloc.start()
    try:
        queue.add_all(jobs)
        taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, entries.__file__)])
    finally:
        tracemalloc.stop()

    # what is left is the table of entries
    assert sum(each.size for each in taken.statistics("filename")) < 60 * len(jobs)
