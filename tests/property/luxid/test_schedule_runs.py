"""Runs of a schedule under a clock that stands, jumps and goes back, against a twin that lists all instants."""

import datetime
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.ids import JobId
from common.schedules.schedule import MOST_RUNS, Missed, Overlap, RunState, Schedule, ScheduleRun, settled
from common.schedules.times import Intervals, offset_of, times_of, zone_named
from daemons.luxid.core.schedules import AHEAD_S, PUNCTUAL_S, Agenda, decide, upcoming
from tests.support.keptvalues import NIGHTLY
from tests.support.naive.cron import instants

BEGIN = 1_790_000_000.0
DAY = 86400.0


def a_schedule(**wanted: Any) -> Schedule:
    base = attrs.evolve(NIGHTLY, cron="", zone="", every_s=60.0, spread_s=0.0, runs=())
    return attrs.evolve(base, **{"created_at": BEGIN, "settled_at": BEGIN, **wanted})


@attrs.define
class World:
    """A schedule, its jobs, and a clock."""

    schedule: Schedule
    now: float = BEGIN
    # unended jobs
    jobs: list[JobId] = attrs.Factory(list)
    # nominal instants of all runs that got a job
    submitted: list[float] = attrs.Factory(list)

    def look(self) -> list[ScheduleRun]:
        """What luxid does when it looks at the schedule: carry out the decision."""
        made = decide(self.schedule, times_of(self.schedule), self.now, self.jobs)
        if made.begins_anew:
            self.schedule = attrs.evolve(self.schedule, settled_at=self.now)
            made = decide(self.schedule, times_of(self.schedule), self.now, self.jobs)
            assert not made.begins_anew
        for run in made.skipped:
            self._settle(run)
        self.jobs = [job for job in self.jobs if job not in made.cancel]
        if made.submit_at is None:
            return list(made.skipped)
        job = JobId(len(self.submitted) + 1)
        self.submitted.append(made.submit_at)
        self.jobs.append(job)
        run = ScheduleRun(made.submit_at, RunState.SUBMITTED, job)
        self._settle(run)
        return [*made.skipped, run]

    def _settle(self, run: ScheduleRun) -> None:
        self.schedule = settled(self.schedule, run, max(run.nominal_at, self.schedule.settled_at))


STEPS = st.one_of(
    st.floats(0.5, 50),
    st.sampled_from([60.0, 3600.0, 3 * DAY, -1800.0, -7200.0]),
    st.just("ends"),
)
SCHEDULES = st.builds(
    a_schedule,
    every_s=st.sampled_from([1.0, 7.0, 60.0, 3600.0]),
    spread_s=st.sampled_from([0.0, 30.0]),
    overlap=st.sampled_from(Overlap),
    missed=st.sampled_from(Missed),
    deadline_s=st.sampled_from([0.0, 90.0]),
)


@settings(max_examples=150, deadline=None)
@given(SCHEDULES, st.lists(STEPS, max_size=30))
def test_no_instant_gets_two_jobs_and_only_the_last_gets_one(schedule: Schedule, steps: list[Any]) -> None:
    world, offset = World(schedule), offset_of(schedule)
    for step in steps:
        if step == "ends":
            world.jobs = world.jobs[1:]
            continue
        world.now += step
        before, unended = world.schedule, list(world.jobs)
        due = [at for at in _instants(schedule, world.now - offset) if at > before.settled_at]

        made = world.look()

        assert len(set(world.submitted)) == len(world.submitted)
        assert world.schedule.settled_at == (due[-1] if due else before.settled_at)
        # one line for what was missed before the last, one for the last
        assert [run.nominal_at for run in made] == due[-2:]
        late = due and world.now - offset - due[-1] > PUNCTUAL_S
        if late and schedule.missed is Missed.SKIP:
            assert made[-1].state is RunState.SKIPPED
        elif due and not late and (schedule.overlap is Overlap.ALLOW or not unended):
            assert made[-1].state is RunState.SUBMITTED
        if schedule.overlap is not Overlap.ALLOW:
            assert len(world.jobs) <= (2 if schedule.overlap is Overlap.QUEUE else 1)


def _instants(schedule: Schedule, until: float) -> list[float]:
    """The last few of all instants."""
    count = int((until - schedule.created_at) // schedule.every_s)
    return [schedule.created_at + number * schedule.every_s for number in range(max(1, count - 3), count + 1)]


@settings(max_examples=60, deadline=None)
@given(SCHEDULES, st.integers(0, 10**6))
def test_it_is_looked_at_again_exactly_when_the_next_run_is_due(schedule: Schedule, after: int) -> None:
    world = World(schedule, BEGIN + after)
    world.look()
    world.jobs = []

    next_at = decide(world.schedule, times_of(schedule), world.now, ()).next_at

    assert next_at is not None
    assert next_at > world.now
    world.now = next_at - 0.5
    assert world.look() == []
    world.now = next_at
    assert [run.state for run in world.look()] == [RunState.SUBMITTED]


def test_a_year_of_standstill_costs_as_much_as_a_minute_and_ends_in_one_run() -> None:
    @attrs.define
    class Counted:
        times: Intervals
        asked: int = 0

        def next_after(self, at: float) -> float | None:
            self.asked += 1
            return self.times.next_after(at)

        def last_until(self, at: float) -> float | None:
            self.asked += 1
            return self.times.last_until(at)

    schedule, counted = a_schedule(missed=Missed.ONCE), Counted(Intervals(BEGIN, 60.0))

    made = decide(schedule, counted, BEGIN + 366 * DAY, ())

    assert counted.asked == 3
    assert made.submit_at == BEGIN + 366 * DAY
    assert [run.nominal_at for run in made.skipped] == [BEGIN + 366 * DAY - 60]


def test_a_clock_that_was_a_year_ahead_makes_one_run_then_goes_on_and_repeats_none() -> None:
    world = World(a_schedule(every_s=3600.0, missed=Missed.ONCE))
    world.now = BEGIN + 366 * DAY
    assert len(world.look()) == 2
    world.jobs = []

    # put right by less than a day: nothing is repeated
    world.now -= AHEAD_S - 1
    assert world.look() == []

    # put right by the whole year: it goes on from now
    world.now = BEGIN + 100
    assert world.look() == []
    assert upcoming(world.schedule, times_of(world.schedule), world.now, 2) == (BEGIN + 3600, BEGIN + 7200)
    world.now = BEGIN + 3600
    assert [run.state for run in world.look()] == [RunState.SUBMITTED]
    # when that year has come, its run is known
    world.now, world.jobs = BEGIN + 366 * DAY, []
    before = len(world.submitted)
    world.look()
    assert len(world.submitted) == before


def test_a_paused_schedule_has_no_runs_and_is_not_looked_at() -> None:
    schedule = a_schedule(is_paused=True)

    made = decide(schedule, times_of(schedule), BEGIN + 3600, ())

    assert (made.submit_at, made.skipped, made.next_at) == (None, (), None)
    assert upcoming(schedule, times_of(schedule), BEGIN, 3) == ()


def test_a_run_that_meets_the_one_before_is_skipped_with_the_name_of_its_job() -> None:
    schedule = a_schedule(overlap=Overlap.SKIP)

    (run,) = decide(schedule, times_of(schedule), BEGIN + 61, (JobId(412),)).skipped

    assert run == ScheduleRun(BEGIN + 60, RunState.SKIPPED, why="job 412 of the run before has not ended")


def test_a_hundred_skipped_runs_do_not_push_out_the_one_with_the_job() -> None:
    world = World(a_schedule(overlap=Overlap.SKIP))
    for _ in range(100):
        world.now += 60
        world.look()

    assert len(world.submitted) == 1
    assert [run.job_id for run in world.schedule.runs if run.job_id] == [JobId(1)]
    assert len(world.schedule.runs) == MOST_RUNS + 1


def test_the_agenda_hands_out_five_thousand_schedules_of_one_minute_in_order() -> None:
    agenda = Agenda()
    for number in range(5000):
        agenda.put(f"s{number}", 1000.0 + number % 60)
        # put anew: the former instant counts no more
        agenda.put(f"s{number}", 2000.0 + number % 60)
    agenda.put("s7", None)
    assert agenda.take(1999.0, 50) == []

    taken = []
    while group := agenda.take(2060.0, 50):
        assert len(group) <= 50
        taken += group

    assert len(taken) == len(set(taken)) == 4999
    assert [int(uuid[1:]) % 60 for uuid in taken] == sorted(int(uuid[1:]) % 60 for uuid in taken)
    assert (len(agenda), agenda.next_at) == (0, None)


@pytest.mark.parametrize(
    ("zone", "night"),
    [
        *(("Europe/Athens", "2026-03-29"), ("Europe/Athens", "2026-10-25"), ("Australia/Lord_Howe", "2026-04-05")),
        *(("Africa/Cairo", "2026-04-24"), ("Pacific/Apia", "2011-12-30"), ("America/Havana", "2026-11-01")),
    ],
)
@pytest.mark.parametrize("words", ["30 2 * * *", "30 3 * * *", "0 0 * * *", "0 * * * *"])
def test_a_schedule_runs_through_an_odd_night_as_its_words_say(zone: str, night: str, words: str) -> None:
    begin = datetime.datetime.fromisoformat(night).replace(tzinfo=datetime.UTC).timestamp() - 1.5 * DAY
    world = World(a_schedule(cron=words, zone=zone, every_s=0.0, created_at=begin, settled_at=begin), begin)
    while world.now < begin + 3 * DAY:
        world.look()
        world.jobs = []
        next_at = decide(world.schedule, times_of(world.schedule), world.now, ()).next_at
        assert next_at is not None
        assert next_at > world.now
        world.now = next_at

    assert world.submitted == instants(words, zone_named(zone), begin + 60, begin + 3 * DAY)
