"""What held queued jobs (DESIGN section 6, "Explain"; ours)."""

import tracemalloc
from collections.abc import Iterable

import pytest

from common.ids import JobId
from common.objects.filter import FilterRule
from common.queue.explanation import NAMED, Cause, Span, WaitKind
from common.queue.jobs import Job, JobOp, JobState
from common.queue.reasons import ReasonEntry
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why import history
from daemons.luxid.core.why.history import MOST_PHASES, Stretches
from tests.support.filterrules import filter_rule

UUID = "00000000-0000-4000-8000-000000000001"
TURN = Cause(WaitKind.TURN)
START = Cause(WaitKind.START)
OBSTACLE = Cause(WaitKind.OBSTACLE)
PAUSED = Cause(WaitKind.FILTER, names=(UUID,), reason="rack 5 is being moved")


def job(number: int, *depends: int, bucket: str = "", received: int | None = None, ended: int | None = None) -> Job:
    reason = [["gnt:user", f"rate-limit:{bucket}", 1]] if bucket else []
    op = JobOp({"OP_ID": "OP_TEST_DUMMY", "depends": [[each, []] for each in depends], "reason": reason})
    first = [JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.SUCCESS, end_at=(ended, 0))] if ended else []
    return Job(JobId(number), (*first, op), received_at=(received, 0) if received else None)


def pause(user_words: str = "rack 5 is being moved") -> FilterRule:
    trail = (ReasonEntry("gnt:user", user_words, 1), ReasonEntry("luxid", "", 2))
    return filter_rule(watermark=JobId(0), priority=0, predicates=(), action="PAUSE", reason_trail=trail, uuid=UUID)


def after(*job_ids: int) -> Cause:
    return Cause(WaitKind.DEPENDENCY, job_ids)


def full(bucket: str, limit: int) -> Cause:
    return Cause(WaitKind.LIMIT, names=(bucket,), limit=limit, is_bucket=True)


class Story:
    """A queue, its clock, and all spans that were handed out."""

    def __init__(self, slots: int = 1, start_limit: int = 8) -> None:
        self.queue = JobQueue(slots, start_limit, lambda _: None)
        self.spans: dict[int, list[Span]] = {}
        self.at(0)

    def at(self, now: float, *, may_start: bool = True) -> None:
        """Decide; jobs that start have a process at once."""
        decisions = self.queue.decide(now, may_start=may_start)
        for waited in decisions.waited:
            self.spans.setdefault(waited.job_id, []).extend(waited.spans)
        for job_id in decisions.start:
            self.queue.started(job_id)
        if decisions.start:
            self.at(now, may_start=may_start)

    def add(self, now: float, *jobs: Job) -> None:
        for each in jobs:
            self.queue.add(each)
        self.at(now)

    def end(self, now: float, number: int) -> None:
        self.queue.end(JobId(number), JobState.SUCCESS)
        self.at(now)

    def rules(self, now: float, rules: Iterable[FilterRule]) -> None:
        self.queue.install_rules(rules)
        self.at(now)

    def now(self, number: int, now: float) -> list[Span]:
        return list(self.queue.spans(JobId(number), now))


def test_a_job_waits_for_others_and_then_for_its_turn() -> None:
    story = Story(slots=2)
    story.add(10, job(1), job(2))
    story.add(15, job(3, 1))
    story.add(20, job(4))
    assert story.now(3, 25) == [Span(after(1), 15, None)]

    # the slot is for 3, as 4 came later
    story.end(30, 1)
    story.end(40, 2)

    assert story.spans == {3: [Span(after(1), 15, 30)], 4: [Span(TURN, 20, 40)]}


def test_after_the_jobs_that_it_waited_for_comes_its_turn() -> None:
    story = Story(slots=2)
    story.add(10, job(1), job(2), job(4), job(5, 1))

    story.end(30, 1)
    assert story.now(5, 31) == [Span(after(1), 10, 30), Span(TURN, 30, None)]
    story.end(40, 4)

    assert story.spans == {4: [Span(TURN, 10, 30)], 5: [Span(after(1), 10, 30), Span(TURN, 30, 40)]}


def test_each_end_of_several_that_are_waited_for_is_told() -> None:
    story = Story(slots=9)
    story.add(10, job(1), job(2), job(3, 1, 2))

    story.end(20, 2)
    story.end(30, 1)

    assert story.spans == {3: [Span(after(1, 2), 10, 20), Span(after(1), 20, 30)]}


def test_ends_that_come_quickly_lose_no_time() -> None:
    story = Story(slots=9)
    story.add(10, *(job(number) for number in range(1, 6)), job(9, 1, 2, 3, 4, 5))

    for number in range(1, 6):
        story.end(10 + number * 0.06, number)

    [first, *rest] = story.spans[9]
    assert first.since == 10
    assert [span.since for span in rest] == pytest.approx([10.12, 10.24][: len(rest)])
    assert sum((span.until or 0) - span.since for span in story.spans[9]) == pytest.approx(0.3, abs=0.1)


def test_of_very_many_jobs_waited_for_the_first_are_named() -> None:
    story = Story(slots=99)
    many = range(1, NAMED + 6)
    story.add(10, *map(job, many), job(99, *many))

    assert story.now(99, 11) == [Span(Cause(WaitKind.DEPENDENCY, tuple(many)[:NAMED], more=5), 10, None)]


def test_who_is_doomed_has_waited_for_all_until_it_was() -> None:
    story = Story(slots=9)
    story.add(10, job(1), job(3), job(2, 1, 3))

    story.queue.end(JobId(1), JobState.CANCELED)
    story.at(20)
    assert story.now(2, 21) == [Span(after(1, 3), 10, None)]
    story.end(22, 2)

    assert story.spans == {2: [Span(after(1, 3), 10, 22)]}


def test_a_canceled_job_has_waited_until_it_was_canceled() -> None:
    story = Story(slots=1)
    story.add(10, job(1), job(2), job(3, 2))

    for number in (3, 2):
        story.queue.hold(JobId(number))
        story.at(20)
        story.end(21, number)

    assert story.spans == {3: [Span(after(2), 10, 21)], 2: [Span(TURN, 10, 21)]}


def test_a_rewritten_job_waits_on() -> None:
    story = Story(slots=9)
    story.add(10, job(1), job(2, 1))

    for now in (12, 14):
        story.queue.hold(JobId(2))
        story.at(now)
        story.add(now + 1, job(2, 1))
    story.end(20, 1)

    assert story.spans == {2: [Span(after(1), 10, 20)]}


def test_a_pausing_rule_is_named_with_its_reason() -> None:
    story = Story(slots=9)
    story.rules(5, [pause()])
    story.add(10, job(1))

    story.rules(15, [pause("another word")])
    assert story.now(1, 16) == [Span(PAUSED, 10, None)]
    story.rules(20, [])

    assert story.spans == {1: [Span(PAUSED, 10, 20)]}


def test_a_job_that_is_paused_between_opcodes_waits_again() -> None:
    story = Story(slots=9)
    story.add(10, job(1))
    story.rules(20, [pause()])
    assert story.now(1, 21) == []

    story.queue.hold(JobId(1))
    story.add(30, job(1, ended=30))
    story.rules(40, [])

    assert story.spans == {1: [Span(PAUSED, 30, 40)]}


def test_a_full_limit_holds_until_the_job_is_started() -> None:
    story = Story(slots=9)
    story.add(10, job(1, bucket="1:x"), job(2, bucket="1:x"), job(3, bucket="1:x"))

    assert story.now(3, 15) == [Span(full("1:x", 1), 10, None)]
    story.end(20, 1)
    story.end(30, 2)

    assert story.spans == {2: [Span(full("1:x", 1), 10, 20)], 3: [Span(full("1:x", 1), 10, 30)]}


def test_while_its_limit_has_room_a_job_waits_for_its_turn() -> None:
    story = Story(slots=2)
    story.add(10, job(1), job(2, bucket="1:x"), job(3, bucket="1:x"))
    story.add(11, job(4))
    # 4 takes the place of 1, and 2 frees both its own and the limit: 3 starts at once
    story.queue.hold(JobId(3))
    story.at(12)
    story.end(20, 2)
    story.add(25, job(3, bucket="1:x"))
    assert story.now(3, 26) == [Span(full("1:x", 1), 10, 20), Span(TURN, 20, None)]

    story.end(30, 1)

    assert story.spans[3] == [Span(full("1:x", 1), 10, 20), Span(TURN, 20, 30)]


def test_a_limit_behind_which_nobody_waits_is_forgotten() -> None:
    story = Story(slots=9)
    story.add(10, job(1, bucket="1:x"), job(2, bucket="1:x"))
    story.end(20, 1)
    story.end(30, 2)
    story.add(40, job(3, bucket="1:x"), job(4, bucket="1:x"))

    assert story.now(4, 50) == [Span(full("1:x", 1), 40, None)]


def test_limits_that_come_and_go_leave_nothing_behind() -> None:
    story = Story(slots=9)

    def live(numbers: range) -> None:
        for number in numbers:
            story.add(number, job(number, bucket=f"1:{number}"), job(-number, bucket=f"1:{number}"))
            for each in (number, -number):
                story.end(number, each)
                story.queue.forget(JobId(each))

    live(range(1, 100))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    live(range(100, 600))
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()

    assert grown < 100 * 500


def test_when_nobody_is_started_that_is_told() -> None:
    story = Story(slots=9)
    story.at(10, may_start=False)
    story.queue.add(job(1))
    story.at(11, may_start=False)

    assert story.now(1, 12) == [Span(OBSTACLE, 11, None)]
    story.at(20)

    assert story.spans == {1: [Span(OBSTACLE, 11, 20)]}


def test_a_process_that_takes_long_to_be_made_is_waited_for() -> None:
    queue = JobQueue(9, 9, lambda _: None)
    queue.decide(0)
    queue.add(job(1))
    assert queue.decide(10).start == (1,)

    queue.started(JobId(1))

    [waited] = queue.decide(15).waited
    assert (waited.job_id, waited.spans) == (1, (Span(START, 10, 15),))


def test_what_a_luxid_did_not_see_is_unknown() -> None:
    queue = JobQueue(1, 1, lambda _: None)
    queue.add_all([job(1, received=5), job(2, received=6), job(3, received=1, ended=7), job(4)])
    queue.decide(20)
    queue.add(job(5, received=29))
    queue.decide(30)

    found = {number: list(queue.spans(JobId(number), 35)) for number in range(1, 6)}

    unknown = Cause(WaitKind.UNKNOWN)
    assert found[2] == [Span(unknown, 6, 20), Span(TURN, 20, None)]
    assert found[3] == [Span(unknown, 7, 20), Span(TURN, 20, None)]
    assert found[4] == [Span(TURN, 20, None)]
    assert found[5] == [Span(TURN, 30, None)]


def test_at_the_end_of_luxid_all_that_is_known_is_handed_out() -> None:
    story = Story(slots=1)
    story.add(10, job(1), job(2), job(3, 1), job(4))

    closed = {waited.job_id: waited.spans for waited in story.queue.close(20)}

    assert closed == {2: (Span(TURN, 10, 20),), 3: (Span(after(1), 10, 20),), 4: (Span(TURN, 10, 20),)}


def test_a_job_that_is_held_by_ever_other_things_keeps_few_spans() -> None:
    story = Story(slots=1)
    story.add(10, job(1), job(2))

    for now in range(20, 20 + 4 * MOST_PHASES):
        story.rules(now, [pause()] if now % 2 else [])

    entry = story.queue.entry(JobId(2))
    assert entry is not None
    assert len(entry.waited) <= MOST_PHASES
    assert len(story.spans[2]) + len(entry.waited) == 4 * MOST_PHASES - 1
    assert [span.since for span in story.spans[2]][:3] == [10, 21, 22]


def test_a_stream_of_jobs_that_start_at_once_has_no_history() -> None:
    """So nothing is written for it."""
    story = Story(slots=4)

    for number in range(1, 200):
        story.add(number, job(number, number - 1) if number > 1 else job(1))
        story.end(number + 0.05, number)

    assert story.spans == {}


def test_an_event_touches_no_more_jobs_for_the_history() -> None:
    """A change of a limit or of a rule is not carried to those behind it."""
    story = Story(slots=99)
    story.add(10, *(job(number, bucket="1:x") for number in range(1, 1001)))
    before = story.queue.touched

    story.end(20, 1)

    assert story.queue.touched - before < 10
    entries = [story.queue.entry(JobId(number)) for number in range(3, 1001)]
    assert {(entry.waiting_since, entry.waited) for entry in entries if entry} == {(10, ())}


def test_jobs_that_nothing_happens_to_have_nothing_of_their_own() -> None:
    """Three references each: to an instant that all share which came with it, and to what they had already."""
    story = Story(slots=1)
    story.add(10, job(1), *(job(number, 1) for number in range(2, 100)))
    story.add(10, *(job(number, bucket=f"9:{number}") for number in range(100, 200)))

    entries = [entry for number in range(2, 200) if (entry := story.queue.entry(JobId(number))) is not None]

    assert len(entries) == 198
    assert len({id(entry.waiting_since) for entry in entries}) <= 2
    assert all(entry.waited == () for entry in entries)
    assert all(entry.waiting_on in (Phase.BLOCKED, entry.buckets) for entry in entries)


def test_a_timeline_ignores_short_gaps_and_short_stretches() -> None:
    line = Stretches()
    for begin, end in ((10, 20), (20.05, 30), (40, 40.05), (50, 60)):
        line.set(True, begin)
        line.set(True, begin + 0.01)
        line.set(False, end)

    assert line.within(0, 100) == [(10, 30), (50, 60)]
    assert line.within(15, 55) == [(15, 30), (50, 55)]
    assert line.within(30, 50) == []
    line.set(True, 70)
    assert line.within(55, 80) == [(55, 60), (70, 80)]


def test_a_timeline_of_very_many_stretches_closes_the_smallest_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_STRETCHES", 3)
    line = Stretches()
    for begin, end in ((0, 1), (3, 4), (5, 6), (10, 11), (20, 21)):
        line.set(True, begin)
        line.set(False, end)

    assert line.within(0, 100) == [(0, 6), (10, 11), (20, 21)]
