"""The numbers of jobs' lives, and of the queue (DESIGN section 15)."""

import attrs

from common.ids import JobId
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid.core.choice.limits import BucketLimit, LimitUsage
from daemons.luxid.core.queue.jobcounts import OTHER, JobCounts
from daemons.luxid.core.queue.jobqueue import FinalStates, JobQueue

OPCODE = "OP_TEST_DELAY"


def op(state: JobState, start: int | None, begun: int | None, end: int | None, op_id: str = OPCODE) -> JobOp:
    def at(second: int | None) -> tuple[int, int] | None:
        return None if second is None else (second, 0)

    return JobOp({"OP_ID": op_id}, state, start_at=at(start), exec_at=at(begun), end_at=at(end))


def job(*ops: JobOp, job_id: int = 1) -> Job:
    return Job(JobId(job_id), ops, received_at=(100, 0))


def test_an_ended_job_adds_the_waits_and_run_times_of_its_executed_opcodes() -> None:
    counts = JobCounts({OPCODE})
    failed, never = op(JobState.ERROR, 110, 112, 120), op(JobState.ERROR, None, None, 120)

    counts.note_end(job(op(JobState.SUCCESS, 101, 104, 110), failed, never))

    assert counts.ended == {JobState.ERROR: 1, JobState.SUCCESS: 0, JobState.CANCELED: 0}
    assert (counts.lock_wait.read().count, counts.lock_wait.read().total) == (2, 3 + 2)
    assert {op_id: (run.read().count, run.read().total) for op_id, run in counts.run.items()} == {OPCODE: (2, 6 + 8)}


def test_opcodes_that_are_not_known_share_one_histogram() -> None:
    counts = JobCounts({OPCODE})
    for number in range(20):
        counts.note_end(job(op(JobState.SUCCESS, 1, 1, 2, f"OP_MADE_UP_{number}")))

    assert list(counts.run) == [OTHER]
    assert counts.run[OTHER].read().count == 20


def test_only_the_first_start_of_a_job_tells_how_long_it_was_queued() -> None:
    counts = JobCounts()
    first = job(op(JobState.QUEUED, None, None, None))

    counts.note_start(first, 103.5)
    counts.note_start(attrs.evolve(first, start_at=(104, 0)), 200.0)

    assert counts.started == 2
    assert (counts.queue_delay.read().count, counts.queue_delay.read().total) == (1, 3.5)


def test_a_clock_that_was_set_back_gives_no_negative_times() -> None:
    counts = JobCounts({OPCODE})

    counts.note_start(job(op(JobState.QUEUED, None, None, None)), 50.0)
    counts.note_end(job(op(JobState.SUCCESS, 105, 103, 101)))

    assert [each.read().total for each in (counts.queue_delay, counts.lock_wait, counts.run[OPCODE])] == [0, 0, 0]


def test_ended_jobs_are_counted_until_they_are_archived_and_once_each() -> None:
    ended = FinalStates()
    ended.put(JobId(1), JobState.SUCCESS)
    ended.put(JobId(2), JobState.ERROR)
    ended.put(JobId(2), JobState.ERROR)
    ended.forget(JobId(1))
    ended.forget(JobId(1))

    assert ended.counts() == {JobState.SUCCESS: 0, JobState.ERROR: 1, JobState.CANCELED: 0}
    assert (ended.get(JobId(1)), ended.get(JobId(2))) == (None, JobState.ERROR)


def test_the_oldest_waiting_job_is_the_first_without_a_process() -> None:
    queue = JobQueue(2, 2, lambda _: None)
    for number in (1, 2, 3, 4):
        queue.add(job(JobOp({"OP_ID": OPCODE}), job_id=number))

    assert queue.decide(1.0).start == (JobId(1), JobId(2))

    oldest = queue.oldest_waiting()
    assert oldest is not None
    assert oldest.job_id == 3


def test_limits_are_counted_while_jobs_run_under_them() -> None:
    usage = LimitUsage()
    wide, narrow = BucketLimit("wide", 2), BucketLimit("narrow", 1)
    usage.enter(JobId(1), [wide, narrow])

    assert usage.counts() == (2, 1)

    usage.leave(JobId(1), [wide, narrow])
    assert usage.counts() == (0, 0)


def test_jobs_that_have_lost_output_are_counted_once_each() -> None:
    counts = JobCounts()
    done = attrs.evolve(op(JobState.SUCCESS, 1, 1, 2), result={"exit_code": 0, "output_lost": True})
    failed = attrs.evolve(done, state=JobState.ERROR, result=["CommandFailed", ["it failed", {"output_lost": True}]])
    other = attrs.evolve(done, result={"exit_code": 0})

    for each in (job(done, done), job(other), job(failed), job(attrs.evolve(done, result=None))):
        counts.note_end(each)

    assert counts.lost_outputs == 2
