"""Counted resources in the choice of the next job: taken with the slot, all or none, and nobody is starved.

Source: DESIGN section 16; everyday.md section e.
"""

from collections.abc import Iterable

import attrs

from common.ids import JobId
from common.queue.explanation import InLine, LacksUnits, YieldsUnits
from common.queue.jobs import Job, JobOp, JobState
from common.queue.terms import JobTerms, read_use, terms_entry
from common.resources import Resource
from daemons.luxid.core.queue.entry import Phase
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.why.explain import explain

MANY = 400
BYPASS = 3


def queue_with(slots: int = 50, **totals: int) -> JobQueue:
    queue = JobQueue(slots, slots, lambda _: None, max_unit_bypass=BYPASS)
    queue.units.replace(resources(**totals))
    return queue


def resources(**totals: int) -> list[Resource]:
    return [Resource("", name, total) for name, total in totals.items()]


def job(job_id: int, priority: int = 0, **uses: int) -> Job:
    terms = JobTerms(uses=tuple(read_use(key, count) for key, count in uses.items()))
    trail = [terms_entry(terms, 1).to_wire()] if uses else []
    op = JobOp({"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": trail}, priority=priority)
    return Job(JobId(job_id), (op,), received_at=(1000, 0))


def starts(queue: JobQueue) -> tuple[int, ...]:
    found = queue.decide(2000.0).start
    for job_id in found:
        queue.started(job_id)
    return found


def end(queue: JobQueue, job_id: int) -> tuple[int, ...]:
    queue.end(JobId(job_id), JobState.SUCCESS)
    return starts(queue)


def why(queue: JobQueue, job_id: int) -> list[object]:
    reasons = explain(queue, JobId(job_id), 2000.0, lambda _: None)
    return [each for each in reasons if isinstance(each, LacksUnits | YieldsUnits)]


def test_two_jobs_for_one_unit_run_one_after_the_other() -> None:
    queue = queue_with(licences=1)
    queue.add_all([job(1, licences=1), job(2, licences=1)])

    assert starts(queue) == (1,)
    assert why(queue, 2) == [LacksUnits("licences", 1, 0, 1, (JobId(1),))]
    assert end(queue, 1) == (2,)


def test_all_units_are_taken_or_none() -> None:
    queue = queue_with(kits=2, licences=1)
    queue.add_all([job(1, licences=1), job(2, kits=2, licences=1), job(3, kits=2)])

    assert starts(queue) == (1, 3)
    assert queue.units.stock.used("kits") == 2
    assert queue.units.stock.used("licences") == 1


def test_units_come_back_when_the_job_waits_for_its_turn_again() -> None:
    queue = queue_with(licences=1)
    queue.add(job(1, licences=1))
    starts(queue)

    queue.hold(JobId(1))
    queue.add(job(2, licences=1))

    assert starts(queue) == ()  # between the death of a process and what becomes of its job
    queue.add(job(1, licences=1))
    assert starts(queue) == (1,)


def test_a_job_that_lives_on_keeps_its_units_after_its_end() -> None:
    queue = queue_with(licences=1)
    queue.add_all([job(1, licences=1), job(2, licences=1)])
    starts(queue)

    queue.end(JobId(1), JobState.SUCCESS, lives_on=True)

    assert starts(queue) == ()
    assert why(queue, 2) == [LacksUnits("licences", 1, 0, 1, (JobId(1),))]
    queue.units.give(JobId(1))
    assert starts(queue) == (2,)


def test_jobs_that_are_found_with_units_have_them_even_beyond_the_total() -> None:
    queue = JobQueue(50, 50, lambda _: None)
    queue.adopt(job(1, licences=3))
    queue.orphan(job(2, licences=2))
    queue.add(job(3, licences=1))
    queue.add(job(4))

    assert starts(queue) == (4,)  # the totals are not known yet
    queue.units.replace(resources(licences=4))

    assert starts(queue) == ()
    assert queue.units.stock.free("licences") == -1
    assert end(queue, 1) == (3,)


def test_more_than_there_is_waits_and_keeps_nothing_from_others() -> None:
    queue = queue_with(licences=5)
    queue.add(job(1, licences=6))
    started: list[int] = []
    for job_id in range(2, 30):
        queue.add(job(job_id, licences=5))
        started += starts(queue)
        end(queue, job_id)

    assert started == list(range(2, 30))
    assert why(queue, 1) == [LacksUnits("licences", 6, 5, 5, ())]
    queue.units.replace(resources(licences=6))
    assert starts(queue) == (1,)


def test_a_resource_that_nobody_has_set_is_waited_for() -> None:
    queue = queue_with()
    queue.add(job(1, licences=1))

    assert starts(queue) == ()
    assert why(queue, 1) == [LacksUnits("licences", 1, 0, None, ())]
    queue.units.replace(resources(licences=1))
    assert starts(queue) == (1,)


def test_a_job_that_waits_for_another_one_is_told_what_it_will_lack_besides() -> None:
    queue = queue_with(licences=1)
    after = job(2, licences=2)
    depends = attrs.evolve(after.ops[0], input={**after.ops[0].input, "depends": [[1, []]]})
    queue.add_all([job(1), attrs.evolve(after, ops=(depends,))])
    starts(queue)

    assert queue.phase(JobId(2)) is Phase.BLOCKED
    assert why(queue, 2) == [LacksUnits("licences", 2, 1, 1, ())]


def test_a_lower_total_takes_nothing_from_anybody() -> None:
    queue = queue_with(licences=3)
    queue.add_all([job(1, licences=2), job(2, licences=1), job(3, licences=1)])
    starts(queue)

    queue.units.replace(resources(licences=1))

    assert queue.units.stock.free("licences") == -2
    assert end(queue, 2) == ()
    assert end(queue, 1) == (3,)


def test_a_large_request_is_passed_a_bounded_number_of_times() -> None:
    queue = queue_with(licences=5)
    queue.add_all(job(job_id, licences=1) for job_id in range(1, 5))
    running = list(starts(queue))
    queue.add(job(5, licences=5))
    passed: list[int] = []
    job_id = 5
    while 5 not in running:
        # a stream: whoever ends is followed by two others
        queue.add_all([job(job_id + 1, licences=1), job(job_id + 2, licences=1)])
        job_id += 2
        found = [*starts(queue), *end(queue, running.pop(0))]
        running += found
        passed += [each for each in found if each != 5]
        assert job_id < 100, "starved"

    assert len(passed) == BYPASS
    assert running == [5]


def test_units_are_not_kept_from_a_better_priority() -> None:
    queue = queue_with(licences=2)
    queue.add(job(1, licences=1))
    starts(queue)
    queue.add(job(2, licences=2))
    for job_id in range(10, 10 + BYPASS):
        queue.add(job(job_id, licences=1))
        assert starts(queue) == (job_id,)
        end(queue, job_id)

    queue.add(job(20, licences=1))
    queue.add(job(21, -10, licences=1))

    assert starts(queue) == (21,)
    assert why(queue, 20) == [LacksUnits("licences", 1, 0, 2, (JobId(1), JobId(21)))]
    assert why(queue, 2) == [LacksUnits("licences", 2, 0, 2, (JobId(1), JobId(21)), is_next=True)]
    assert end(queue, 21) == ()
    assert why(queue, 20) == [YieldsUnits("licences", JobId(2))]


def test_two_large_requests_for_the_same_two_resources_do_not_keep_each_other_out() -> None:
    queue = queue_with(kits=3, licences=3)
    queue.add_all([job(1, kits=1), job(2, licences=1), job(3, kits=3, licences=1), job(4, kits=1, licences=3)])
    running, done = list(starts(queue)), 0
    job_id = 10
    while not {3, 4} <= set(running):
        queue.add_all([job(job_id, kits=1), job(job_id + 1, licences=1)])
        job_id += 2
        running += starts(queue)
        running += end(queue, running[done])
        done += 1
        assert done < 100, "starved"

    assert running.index(3) < running.index(4)


def test_equal_requests_for_one_of_two_resources_do_not_starve_a_job_that_wants_both() -> None:
    queue = queue_with(kits=2, licences=5)
    queue.add_all([job(1, kits=2), job(2, licences=5)])
    running = list(starts(queue))
    queue.add(job(3, kits=2, licences=5))
    job_id = 10
    while 3 not in running:
        # one of the two resources is taken at each moment
        queue.add_all([job(job_id, kits=2), job(job_id + 1, licences=5)])
        job_id += 2
        running += end(queue, running.pop(0))
        assert job_id < 100, "starved"

    assert running == [3]
    assert why(queue, 10 + BYPASS + 1) == [LacksUnits("kits", 2, 0, 2, (JobId(3),))]


def test_units_kept_for_a_job_are_kept_from_equal_requests_of_other_groups_alone() -> None:
    queue = queue_with(kits=2, licences=5)
    queue.add_all([job(1, kits=2), job(2, licences=5)])
    starts(queue)
    queue.add(job(3, kits=2, licences=5))
    for job_id in range(10, 10 + BYPASS):
        queue.add(job(job_id, kits=2))
        end(queue, 1 if job_id == 10 else job_id - 1)
    queue.add_all([job(20, kits=2), job(4, kits=2, licences=5)])

    assert end(queue, 10 + BYPASS - 1) == ()
    assert why(queue, 20) == [YieldsUnits("kits", JobId(3))]
    lacking = LacksUnits("licences", 5, 0, 5, (JobId(2),))
    assert (why(queue, 3)[0], why(queue, 4)) == (attrs.evolve(lacking, is_next=True), [lacking])
    queue.end(JobId(3), JobState.CANCELED)
    assert starts(queue) == (20,)


def test_jobs_that_lack_units_stand_in_nobodys_way() -> None:
    queue = queue_with(slots=1, licences=1)
    queue.add_all([job(1, licences=1), job(2, licences=1), job(3)])

    assert starts(queue) == (1,)
    assert explain(queue, JobId(3), 2000.0, lambda _: None)[-1:] != ()
    line = next(each for each in explain(queue, JobId(3), 2000.0, lambda _: None) if isinstance(each, InLine))
    assert line.position == 1


def test_what_waits_for_units_costs_nothing() -> None:
    """Neither the jobs that wait, nor how differently they ask, is looked at for a job that uses nothing."""
    assert _touched_by_ordinary_jobs(0) == _touched_by_ordinary_jobs(MANY)


def _touched_by_ordinary_jobs(waiting: int) -> int:
    queue = queue_with(slots=2, memory=10_000)
    queue.add(job(1, memory=10_000))
    queue.add_all(job(job_id, memory=job_id) for job_id in range(10, 10 + waiting))
    starts(queue)
    # one weight class more or less: that of those who wait
    queue.add(job(2))
    before = queue.touched
    for job_id in range(5000, 5100):
        queue.add(job(job_id))
        end(queue, job_id - 1 if job_id > 5000 else 2)
    return queue.touched - before


def test_units_that_come_back_touch_the_requests_that_they_suffice_for() -> None:
    few, many = (_touched_by_units(range(10, 10 + count)) for count in (10, MANY))
    assert many == few


def _touched_by_units(asked: Iterable[int]) -> int:
    queue = queue_with(memory=10_000)
    queue.add_all([job(1, memory=5), job(2, memory=9_995)])
    queue.add_all(job(count, memory=count) for count in asked)
    starts(queue)
    before = queue.touched
    assert end(queue, 1) == ()
    return queue.touched - before


def test_equal_requests_are_one() -> None:
    few, many = (_touched_by_equal(count) for count in (10, MANY))
    assert many == few


def _touched_by_equal(count: int) -> int:
    queue = queue_with(licences=1)
    queue.add_all(job(job_id, licences=1) for job_id in range(1, count))
    starts(queue)
    before = queue.touched
    assert end(queue, 1) == (2,)
    return queue.touched - before
