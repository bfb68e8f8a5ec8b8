"""The task that submits runs, under a clock that the test moves: jumps, hindrances, groups (everyday.md c and j)."""

import datetime
import errno
import zoneinfo
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from common.errors import Denied, GantryError, PlacesReserved, QueueDrained, Unavailable
from common.ids import JobId
from common.schedules.schedule import Missed, Overlap, RunState, Schedule, ScheduleRun, settled
from common.schedules.times import instant_name
from daemons.luxid.schedules import GROUP, LOOKED_AGAIN_S, PLACES_AGAIN_S, Firing, ScheduleBook
from protocol.client import Client
from protocol.luxi.jobs import JobInput
from protocol.messages import AnyRequest
from protocol.wconfd.config import PutSchedule, ReadSchedules, RemoveSchedule, SettleRuns
from tests.support.keptvalues import NIGHTLY

pytestmark = pytest.mark.trio
BEGIN = 1_790_000_000.0
DAY = 86400.0


class VirtualClock:
    """A clock that stands still unless the test moves it; each move wakes, as the kernel's timers do."""

    def __init__(self) -> None:
        self.at = BEGIN
        self.alarm: float | None = None
        self._woken = trio.Event()

    def now(self) -> float:
        return self.at

    def wake_at(self, at: float | None) -> None:
        self.alarm = at

    async def woken(self) -> None:
        await self._woken.wait()
        self._woken = trio.Event()

    def close(self) -> None:
        pass

    async def move(self, by_s: float, *, is_set: bool = False) -> None:
        """Let time pass, or set the clock; return when all that follows is done."""
        self.at += by_s
        if is_set or (self.alarm is not None and self.at >= self.alarm):
            self._woken.set()
        await wait_all_tasks_blocked()


class Wconfd:
    """Keeps schedules, and counts the writes."""

    def __init__(self, *schedules: Schedule) -> None:
        self.schedules = {each.uuid: each for each in schedules}
        self.failures: list[GantryError] = []
        self.settled: list[int] = []
        # whether it dies after the next change, before it replies
        self.dies = False

    async def call_retrying(self, request: AnyRequest, timeout_s: float) -> object:
        await trio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        match request:
            case ReadSchedules():
                return tuple(self.schedules.values())
            case PutSchedule(schedule):
                self.schedules[schedule.uuid] = schedule
                if self.dies:
                    self.dies = False
                    raise Unavailable("it is gone")
            case SettleRuns(settlements):
                self.settled.append(len(settlements))
                for each in settlements:
                    self.schedules[each.uuid] = settled(self.schedules[each.uuid], each.run, each.settled_at)
            case RemoveSchedule(uuid):
                return self.schedules.pop(uuid, None) is not None
            case _:
                raise AssertionError(request)
        return None


class World:
    """Schedules in a wconfd, a clock, and a queue that takes their jobs."""

    def __init__(self, *schedules: Schedule) -> None:
        self.wconfd = Wconfd(*schedules)
        self.clock = VirtualClock()
        # keys of the submissions, in order
        self.keys: list[str] = []
        self.failures: list[Exception] = []
        # schedules for whose jobs only reserved queue places are left
        self.without_places: set[str] = set()
        # canceled, and unended, jobs
        self.canceled: list[JobId] = []
        self.unended: set[JobId] = set()
        # seconds by which the clock is set at the next submission
        self.sets_clock_by = 0.0
        self.book = ScheduleBook(cast(Client, self.wconfd))
        self.firing = Firing(self.book, self.clock, self._submit, self._cancel, self.unended.__contains__)

    async def _submit(self, schedule: Schedule, job: JobInput, key: str) -> JobId:
        if schedule.uuid in self.without_places:
            raise PlacesReserved
        if self.failures:
            raise self.failures.pop(0)
        self.keys.append(key)
        self.clock.at += self.sets_clock_by
        self.sets_clock_by = 0.0
        return JobId(len(self.keys))

    def _cancel(self, schedule: Schedule, job_id: JobId) -> None:
        self.canceled.append(job_id)

    def runs(self, uuid: str = "u") -> tuple[ScheduleRun, ...]:
        return self.wconfd.schedules[uuid].runs


def hourly(uuid: str = "u", **wanted: Any) -> Schedule:
    base = attrs.evolve(NIGHTLY, uuid=uuid, name=uuid, cron="", every_s=3600.0, spread_s=0.0, runs=())
    return attrs.evolve(base, **{"created_at": BEGIN, "settled_at": BEGIN, **wanted})


def key_of(hour: int) -> str:
    return f"schedule/u/{instant_name(BEGIN + hour * 3600)}"


async def test_each_run_is_submitted_at_its_instant_under_its_key(nursery: trio.Nursery) -> None:
    world = World(hourly())
    nursery.start_soon(world.firing.run)
    await world.clock.move(0)
    assert world.clock.alarm == BEGIN + 3600

    await world.clock.move(3599)
    assert world.keys == []
    await world.clock.move(1)
    await world.clock.move(3600)

    assert world.keys == [key_of(1), key_of(2)]
    assert [(run.state, run.job_id) for run in world.runs()] == [(RunState.SUBMITTED, 1), (RunState.SUBMITTED, 2)]
    assert world.clock.alarm == BEGIN + 3 * 3600


async def test_a_clock_that_is_set_back_repeats_nothing_and_one_set_forward_runs_once(nursery: trio.Nursery) -> None:
    world = World(hourly())
    nursery.start_soon(world.firing.run)
    await world.clock.move(2 * 3600)
    assert len(world.keys) == 1

    await world.clock.move(-1.5 * 3600, is_set=True)
    assert world.clock.alarm == BEGIN + 3 * 3600
    await world.clock.move(1.5 * 3600)
    assert len(world.keys) == 1
    await world.clock.move(365 * DAY, is_set=True)
    assert len(world.keys) == 2

    # a year too far, and put right: it goes on from there
    await world.clock.move(-365 * DAY, is_set=True)
    assert world.clock.alarm == BEGIN + 3 * 3600
    await world.clock.move(3600)
    assert world.keys[2:] == [key_of(3)]


async def test_a_hindrance_delays_a_run_and_a_refusal_ends_it(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    world = World(hourly())
    world.failures = [QueueDrained(), Unavailable("the disk is full"), Denied("user 7 may not submit")]
    nursery.start_soon(world.firing.run)

    await world.clock.move(3600)
    assert world.runs() == ()
    await trio.sleep(60)

    (run,) = world.runs()
    assert (run.state, run.why, run.nominal_at) == (RunState.REFUSED, "user 7 may not submit", BEGIN + 3600)
    await world.clock.move(3600)
    assert [run.state for run in world.runs()] == [RunState.REFUSED, RunState.SUBMITTED]


async def test_a_run_that_finds_only_reserved_places_waits_for_itself(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    users = [f"u{number}" for number in range(3 * GROUP)]
    world = World(*map(hourly, users), hourly("operators", created_at=BEGIN + 1, settled_at=BEGIN + 1))
    world.without_places = set(users)
    nursery.start_soon(world.firing.run)

    await world.clock.move(3601)
    assert [run.state for run in world.runs("operators")] == [RunState.SUBMITTED]
    assert not world.runs("u1")
    world.without_places.clear()
    await world.clock.move(PLACES_AGAIN_S)

    assert len(world.keys) == len(users) + 1


async def test_a_clock_that_is_set_back_while_a_run_is_submitted_is_noticed_too(nursery: trio.Nursery) -> None:
    world = World(hourly(created_at=BEGIN - 400 * DAY))
    nursery.start_soon(world.firing.run)
    await world.clock.move(0)

    world.sets_clock_by = -365 * DAY
    await world.clock.move(3600)

    assert world.clock.alarm == BEGIN + 2 * 3600 - 365 * DAY


@pytest.mark.parametrize("failure", [Denied("user 7 may not submit"), QueueDrained()])
async def test_a_job_is_canceled_for_the_next_run_only_when_that_has_its_job(
    failure: GantryError, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world = World(hourly(overlap=Overlap.CANCEL_RUNNING))
    world.unended.add(JobId(1))
    nursery.start_soon(world.firing.run)
    await world.clock.move(3600)

    world.failures = [failure]
    await world.clock.move(3600)
    assert (world.keys, world.canceled) == ([key_of(1)], [])
    await trio.sleep(60)
    await world.clock.move(3600)

    assert world.keys[-1] == key_of(3)
    assert set(world.canceled) == {1}


async def test_a_run_that_is_hindered_too_long_was_missed(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    world = World(hourly(missed=Missed.SKIP))
    world.failures = [QueueDrained()]
    nursery.start_soon(world.firing.run)
    await world.clock.move(3600)
    world.clock.at += 600

    await trio.sleep(60)

    (run,) = world.runs()
    assert (run.state, run.why) == (RunState.SKIPPED, "missed by 600 s")


async def test_thousands_at_one_instant_are_settled_in_groups(nursery: trio.Nursery) -> None:
    world = World(*(hourly(f"u{number}") for number in range(5000)))
    nursery.start_soon(world.firing.run)

    await world.clock.move(3600)

    assert len(world.keys) == len(set(world.keys)) == 5000
    assert world.wconfd.settled == [GROUP] * (5000 // GROUP)


async def test_while_all_are_hindered_one_at_a_time_asks_whether_that_is_over(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world = World(*(hourly(f"u{number}") for number in range(500)))
    world.failures = [QueueDrained() for _ in range(GROUP + 20)]
    nursery.start_soon(world.firing.run)
    await world.clock.move(3600)
    assert len(world.failures) == 20

    await trio.sleep(10)
    # pauses of 0.1, 0.2, ... at most 5 s
    assert 10 < len(world.failures) < 16
    await trio.sleep(100)

    assert len(world.keys) == len(set(world.keys)) == 500


async def test_a_fault_in_one_schedule_leaves_the_others_alone(nursery: trio.Nursery) -> None:
    broken = hourly("broken", created_at=1e300, settled_at=0.0)
    world = World(hourly(), broken, hourly("none", every_s=0.0))
    nursery.start_soon(world.firing.run)

    await world.clock.move(3600)

    assert world.keys == [key_of(1)]


async def test_an_error_of_the_disk_is_no_verdict_on_a_schedule(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world = World(hourly())
    world.failures = [OSError(errno.EMFILE, "Too many open files")]
    nursery.start_soon(world.firing.run)
    await world.clock.move(3600)
    assert world.keys == []

    await world.clock.move(LOOKED_AGAIN_S)

    assert world.keys == [key_of(1)]


async def test_a_zone_that_cannot_be_read_now_stops_no_schedule(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, readable = zoneinfo.ZoneInfo, False

    def read(name: str) -> datetime.tzinfo:
        if not readable:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", read)
    world = World(hourly(cron="* * * * *", zone="Europe/Athens", every_s=0.0))
    nursery.start_soon(world.firing.run)
    await world.clock.move(60)
    assert world.keys == []

    readable = True
    await world.clock.move(LOOKED_AGAIN_S)

    assert len(world.keys) == 1


async def test_changes_at_the_same_time_are_all_kept(nursery: trio.Nursery) -> None:
    world = World(hourly())
    nursery.start_soon(world.firing.run)
    await world.clock.move(0)

    nursery.start_soon(world.book.change, "u", lambda each: attrs.evolve(each, is_paused=True))
    nursery.start_soon(world.book.change, "u", lambda each: attrs.evolve(each, every_s=60.0))
    await wait_all_tasks_blocked()

    after = world.book.get("u")
    assert after == world.wconfd.schedules["u"]
    assert after is not None
    assert (after.is_paused, after.every_s) == (True, 60.0)


async def test_a_schedule_that_was_removed_does_not_come_back(nursery: trio.Nursery) -> None:
    world = World(hourly())
    nursery.start_soon(world.firing.run)
    await world.clock.move(0)

    assert await world.book.remove(hourly())
    assert await world.book.change("u", lambda each: attrs.evolve(each, is_paused=True)) is None
    assert await world.book.restart("u", BEGIN) is None
    assert world.wconfd.schedules == {}


async def test_a_wconfd_that_is_away_is_asked_again(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    world = World(hourly())
    world.wconfd.failures = [Unavailable("away"), Unavailable("away")]
    nursery.start_soon(world.firing.run)
    await trio.sleep(60)
    world.wconfd.failures = [Unavailable("away")]

    await world.clock.move(3600)
    await trio.sleep(60)

    assert world.wconfd.settled == [1]
    assert len(world.keys) == 1


async def test_a_schedule_whose_reply_was_lost_is_found_and_runs(nursery: trio.Nursery) -> None:
    world = World()
    nursery.start_soon(world.firing.run)
    await world.clock.move(0)
    world.wconfd.dies = True

    with pytest.raises(Unavailable):
        await world.book.add(hourly())
    await world.clock.move(0)

    assert world.clock.alarm == BEGIN + 3600
    await world.clock.move(3600)
    assert world.keys == [key_of(1)]
