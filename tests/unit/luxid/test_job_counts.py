"""The numbers of jobs' lives, and of the queue (DESIGN section 15)."""

import attrs

from common.ids import JobId
from common.queue.explanation import Cause, Span, WaitKind
from common.queue.jobs import Job, JobOp, JobState
from common.queue.terms import JobTerms, terms_entry
from daemons.luxid.core.choice.limits import BucketLimit, LimitUsage
from daemons.luxid.core.queue.jobcounts import MOST_VALUES, OTHER, JobCounts
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
    assert (counts.lock_wait[""].read().count, counts.lock_wait[""].read().total) == (2, 3 + 2)
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

    assert [each.read().total for each in (counts.queue_delay, counts.lock_wait[""], counts.run[OPCODE])] == [0, 0, 0]


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


def labelled(value: str, job_id: int = 1) -> Job:
    entry = terms_entry(JobTerms(labels={"team": value}), 0).to_wire()
    first = JobOp({"OP_ID": OPCODE, "reason": [entry]}, JobState.SUCCESS, start_at=(101, 0), exec_at=(104, 0))
    return job(first, job_id=job_id)


def test_only_waits_for_which_nobody_asked_delay_a_start() -> None:
    counts = JobCounts()
    spans = [Span(Cause(kind), 10.0 * place, 10.0 * place + 4.0) for place, kind in enumerate(WaitKind)]
    first = job(op(JobState.QUEUED, None, None, None))

    # spans of a long wait come in several parts
    counts.note_waited(JobId(1), spans)
    counts.note_waited(JobId(1), [Span(Cause(WaitKind.TURN), 500.0, 501.0)])
    counts.note_start(first, 600.0)
    counts.note_start(attrs.evolve(first, job_id=JobId(2)), 600.0)

    # turn, resource, obstacle; and a job that did not wait
    told = counts.start_delay[""].read()
    assert (told.count, told.total) == (2, 3 * 4.0 + 1.0)


def test_a_job_that_ended_before_it_began_leaves_no_delay() -> None:
    counts = JobCounts()
    counts.note_waited(JobId(1), [Span(Cause(WaitKind.TURN), 0.0, 50.0)])

    counts.note_end(job(op(JobState.CANCELED, None, None, 60)))

    assert counts.start_delay[""].read().count == 0
    counts.note_start(job(op(JobState.QUEUED, None, None, None)), 70.0)
    assert counts.start_delay[""].read().total == 0.0


def test_the_first_values_of_the_label_are_counted_apart_and_the_rest_together() -> None:
    counts = JobCounts({OPCODE}, "team")
    values = [f"team {number}" for number in range(MOST_VALUES + 3)]

    for _ in range(2):
        for value in values:
            counts.note_end(labelled(value))
    counts.note_end(job(op(JobState.SUCCESS, 101, 104, 110)))

    told = {value: each.read().count for value, each in counts.lock_wait.items()}
    assert told == {**dict.fromkeys(values[:MOST_VALUES], 2), OTHER: 6, "": 1}


def test_without_a_label_in_the_settings_all_jobs_are_counted_together() -> None:
    counts = JobCounts({OPCODE})

    counts.note_end(labelled("web"))

    assert {value: each.read().count for value, each in counts.lock_wait.items()} == {"": 1}


def test_jobs_are_delayed_that_could_begin_and_wait_for_long() -> None:
    queue = JobQueue(2, 2, lambda _: None)
    for number in range(1, 6):
        queue.add(job(JobOp({"OP_ID": OPCODE}), job_id=number))
    # it waits for a limit, which somebody asked for
    for number in (6, 7):
        reason = [["gnt:user", "rate-limit:1:one", 1]]
        queue.add(job(JobOp({"OP_ID": OPCODE, "reason": reason}), job_id=number))
    queue.decide(1000.0)
    assert queue.delayed(1029.0, 30.0) == 0

    assert queue.delayed(1030.0, 30.0) == 3

    queue.end(JobId(4), JobState.CANCELED)
    queue.decide(1031.0)
    assert queue.delayed(1031.0, 30.0) == 2
