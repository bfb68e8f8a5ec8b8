"""Jobs that are to begin later (DESIGN section 16); the property test has their phases."""

import pytest

from common.ids import JobId
from common.queue.explanation import (
    BeginsLater,
    Cause,
    HeldByRule,
    OnHold,
    Span,
    TriesAgain,
    WaitKind,
    WaitsForJob,
    assemble,
)
from common.queue.jobs import Job, JobState
from common.queue.reasons import Batch, batch_entry
from common.queue.terms import JobTerms
from common.words.why import in_words, waited_words
from daemons.luxid.core.queue.entries import Deferrals
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import explain
from tests.support.deferred import HELD, deferred_job, failed_try, stated
from tests.support.filterrules import filter_rule

ONE, TWO = JobId(1), JobId(2)
REJECT = filter_rule(watermark=JobId(0), priority=0, predicates=(), action="REJECT", reason_trail=(), uuid="0000-1")
BY_ALICE = Cause(WaitKind.HOLD, names=("alice",), reason="the disk is full")
BEGIN, TURN, START, UNKNOWN = map(Cause, (WaitKind.BEGIN, WaitKind.TURN, WaitKind.START, WaitKind.UNKNOWN))


def queue_with(*jobs: Job) -> JobQueue:
    queue = JobQueue(10, 10, lambda _: None)
    queue.add_all(jobs)
    return queue


def test_why_tells_all_that_defers_a_job_and_what_else_it_waits_for() -> None:
    trail = [*stated(JobTerms(begin_at=500.0, hold=HELD.hold)), *failed_try(300.0)]
    queue = queue_with(deferred_job(2, trail, depends=[[1, ["success"]]], retries=3), deferred_job(1, []))
    queue.decide(200.0)

    reasons = explain(queue, TWO, 200.0, lambda _: None)

    assert reasons == (
        OnHold("alice", 100.0, "the disk is full"),
        BeginsLater(500.0),
        TriesAgain(300.0, 2, 4, "ended with exit code 75"),
        WaitsForJob(ONE, None, None, (JobState.SUCCESS,)),
    )
    assert in_words(reasons[0], 200.0).startswith("is held by alice for 1m40s: the disk is full")


def test_why_tells_how_many_tries_a_delivery_may_have() -> None:
    queue = queue_with(deferred_job(1, [*failed_try(300.0)], pauses=[5, 300, 1800]))
    queue.decide(200.0)

    assert explain(queue, ONE, 200.0, lambda _: None) == (TriesAgain(300.0, 2, 4, "ended with exit code 75"),)


def test_a_rule_that_rejects_all_ends_deferred_jobs_too() -> None:
    queue = queue_with(deferred_job(1, stated(HELD)))
    queue.decide(1.0)

    queue.install_rules([REJECT])

    assert [each.job_id for each in queue.decide(1.0).rejected] == [1]


def test_a_rule_that_pauses_is_told_beside_the_begin() -> None:
    pause = filter_rule(watermark=JobId(0), priority=0, predicates=(), action="PAUSE", reason_trail=(), uuid="0000-1")
    queue = queue_with(deferred_job(1, stated(JobTerms(begin_at=9.0))))
    queue.install_rules([pause])
    queue.decide(1.0)

    kinds = [type(each) for each in explain(queue, ONE, 1.0, lambda _: None)]

    assert kinds == [BeginsLater, HeldByRule]


@pytest.mark.parametrize(("trail", "is_stopped"), [(stated(HELD), True), (failed_try(300.0), False)])
def test_a_batch_that_stops_ends_deferred_jobs_that_have_not_begun(trail: list[object], is_stopped: bool) -> None:
    def entry(place: int) -> object:
        return batch_entry(Batch("b", place, 2, None, 0), 1).to_wire()

    queue = queue_with(deferred_job(1, [entry(1)]), deferred_job(2, [entry(2), *trail]))
    queue.decide(1.0)
    queue.started(ONE)

    queue.end(ONE, JobState.ERROR)

    assert [each.job_id for each in queue.decide(1.0).doomed] == ([2] if is_stopped else [])
    assert queue.phase(TWO) is (Phase.HELD if is_stopped else Phase.DEFERRED)


def test_a_deferred_job_is_not_the_oldest_that_waits() -> None:
    queue = queue_with(deferred_job(1, stated(HELD)), deferred_job(2, []))

    oldest = queue.oldest_waiting()

    assert oldest is not None
    assert oldest.job_id == 2


def test_one_change_of_many_deferred_jobs_costs_no_look_at_the_others() -> None:
    count = 5_000
    queue = queue_with(*(deferred_job(number, stated(JobTerms(begin_at=1e9 + number))) for number in range(1, count)))
    queue.decide(1.0)
    before = queue.touched

    queue.hold(TWO)
    queue.add(deferred_job(2, stated(HELD)))
    queue.decide(2.0)

    assert queue.touched - before < 10
    assert queue.begins_at() == 1e9 + 1


def test_places_of_jobs_that_were_deferred_to_another_instant_do_not_pile_up() -> None:
    deferrals = Deferrals()
    for number in range(10_000):
        deferrals.enter(ONE, 5.0 + number)
        deferrals.leave(ONE)

    assert len(deferrals._heap) < 100
    assert (deferrals.first_at(), deferrals.due(1e9), len(deferrals)) == (None, (), 0)


def test_the_history_tells_for_how_long_a_job_was_held_and_was_to_begin_later() -> None:
    queue = queue_with()
    queue.decide(0.0)
    queue.add(deferred_job(1, stated(JobTerms(hold=HELD.hold, begin_at=160.0)), received_at=(100, 0)))
    queue.decide(100.0)
    queue.hold(ONE)
    queue.decide(120.0)
    queue.add(deferred_job(1, stated(JobTerms(begin_at=160.0)), received_at=(100, 0)))
    queue.decide(120.0)
    queue.decide(160.0, may_start=False)

    [waited] = queue.decide(170.0).waited

    assert waited.spans == (
        Span(BY_ALICE, 100.0, 120.0),
        Span(BEGIN, 120.0, 160.0),
        Span(Cause(WaitKind.OBSTACLE), 160.0, 170.0),
    )
    assert waited_words(waited.spans, 170.0) == (
        "1m10s in all: 20s held by alice (the disk is full), 40s for its time to begin, 10s as no job could be started"
    )


@pytest.mark.parametrize(
    ("trail", "spans"),
    [
        (stated(HELD), [Span(UNKNOWN, 40.0, 100.0), Span(BY_ALICE, 100.0, 300.0)]),
        (stated(JobTerms(begin_at=900.0)), [Span(BEGIN, 40.0, 300.0)]),
        (failed_try(900.0), [Span(Cause(WaitKind.RETRY, reason="ended with exit code 75"), 50.0, 300.0)]),
    ],
    ids=["hold", "begin", "retry"],
)
def test_after_a_restart_the_file_tells_since_when_a_job_was_deferred(trail: list[object], spans: list[Span]) -> None:
    queue = queue_with(deferred_job(1, trail, received_at=(40, 0)))
    queue.decide(200.0)

    found = queue.spans(ONE, 300.0)

    assert [Span(each.cause, each.since, each.until or 300.0) for each in found] == spans


def test_what_an_earlier_luxid_has_told_is_not_told_twice() -> None:
    written = [Span(BY_ALICE, 100.0, 150.0)]
    current = [Span(BY_ALICE, 100.0, None)]

    assert assemble(written, current, 40.0, None) == (Span(BY_ALICE, 100.0, 150.0), Span(BY_ALICE, 150.0, None))
