"""Changes of one schedule that meet: none is lost, and what was removed stays so (DESIGN section 16)."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from common.access import Role
from common.conditions import Condition
from common.errors import Conflict, NotFound, PreconditionFailed, Unavailable
from common.schedules.schedule import Overlap, Schedule
from common.settings import LimitsSettings
from daemons.luxid.core.rights import Submitter
from daemons.luxid.core.schedules import ScheduleOwner
from daemons.luxid.handlers.schedules import MOST_SCHEDULES, RESERVED_SCHEDULES, Schedules
from daemons.luxid.schedules import ScheduleBook
from protocol.client import Client
from protocol.luxi.queue import (
    AddSchedule,
    ChangeSchedule,
    ListSchedules,
    PauseSchedule,
    RemoveScheduleOf,
    ScheduleRequest,
    SetSchedule,
)
from protocol.messages import AnyRequest
from protocol.peer import Peer
from protocol.wconfd.config import ReadSchedules
from tests.support.keptvalues import NIGHTLY
from tests.unit.luxid.schedules.test_firing import Wconfd

pytestmark = pytest.mark.trio
ROOT = Peer(1, 0, 0, role=Role.FULL)
OTHER_JOB = ({"OP_ID": "OP_TEST_DUMMY", "fail": True},)


@attrs.define
class SlowChecks:
    """Users who can submit any job; whether they can is found out after a while."""

    is_found: trio.Event = attrs.Factory(trio.Event)

    async def of_schedule(self, _: object) -> Submitter:
        return Submitter(0, "root", Role.FULL)

    async def check(self, *_: object) -> None:
        await self.is_found.wait()


@attrs.define
class Users:
    """Users who can submit any job, by their uids."""

    roles: dict[int, Role]

    async def of(self, peer: Peer) -> Submitter:
        return Submitter(peer.uid, f"u{peer.uid}", self.roles[peer.uid])

    async def owner_of_schedules(self, submitter: Submitter) -> ScheduleOwner:
        return ScheduleOwner(submitter.uid, submitter.login)

    async def check(self, *_: object) -> None:
        pass


class SlowWconfd(Wconfd):
    """Replies when it is told to."""

    def __init__(self, *schedules: Schedule) -> None:
        super().__init__(*schedules)
        self.replies = trio.Event()
        self.reads = 0

    async def call_retrying(self, request: AnyRequest, timeout_s: float) -> object:
        self.reads += isinstance(request, ReadSchedules)
        await self.replies.wait()
        return await super().call_retrying(request, timeout_s)


def calls() -> tuple[Schedules, SlowChecks, Wconfd]:
    checks, wconfd = SlowChecks(), Wconfd(NIGHTLY)
    parts = cast(Any, checks)
    return Schedules(ScheduleBook(cast(Client, wconfd)), parts, parts, LimitsSettings(), lambda _: ()), checks, wconfd


async def test_a_pause_outlives_a_change_that_was_being_checked(nursery: trio.Nursery) -> None:
    schedules, checks, wconfd = calls()
    wish = ScheduleRequest(name=NIGHTLY.name, job=OTHER_JOB)
    nursery.start_soon(schedules.change_schedule, ChangeSchedule(wish), ROOT)
    await wait_all_tasks_blocked()

    await schedules.pause_schedule(PauseSchedule(NIGHTLY.name, True), ROOT)
    checks.is_found.set()
    await wait_all_tasks_blocked()

    after = wconfd.schedules[NIGHTLY.uuid]
    assert (after.is_paused, after.job) == (True, OTHER_JOB)


async def test_a_change_does_not_bring_back_what_was_removed_meanwhile(nursery: trio.Nursery) -> None:
    schedules, checks, wconfd = calls()
    wish = ScheduleRequest(name=NIGHTLY.name, job=OTHER_JOB)
    refused: list[NotFound] = []

    async def change() -> None:
        try:
            await schedules.change_schedule(ChangeSchedule(wish), ROOT)
        except NotFound as error:
            refused.append(error)

    nursery.start_soon(change)
    await wait_all_tasks_blocked()

    assert await schedules.remove_schedule(RemoveScheduleOf(NIGHTLY.name), ROOT)
    checks.is_found.set()
    await wait_all_tasks_blocked()

    assert wconfd.schedules == {}
    assert [error.message for error in refused] == [f"schedule '{NIGHTLY.name}' was removed meanwhile"]


async def test_a_condition_counts_at_the_turn_of_a_change(nursery: trio.Nursery) -> None:
    schedules, checks, wconfd = calls()
    seen = Condition(tags=(NIGHTLY.tag,))
    refused: list[PreconditionFailed] = []

    async def change(make: Callable[[], Awaitable[object]]) -> None:
        try:
            await make()
        except PreconditionFailed as error:
            refused.append(error)

    patch = ChangeSchedule(ScheduleRequest(name=NIGHTLY.name, job=OTHER_JOB), seen)
    whole = SetSchedule(ScheduleRequest(name=NIGHTLY.name, every_s=60.0, job=OTHER_JOB), seen)
    nursery.start_soon(change, lambda: schedules.change_schedule(patch, ROOT))
    nursery.start_soon(change, lambda: schedules.set_schedule(whole, ROOT))
    await wait_all_tasks_blocked()

    await schedules.pause_schedule(PauseSchedule(NIGHTLY.name, True), ROOT)
    checks.is_found.set()
    await wait_all_tasks_blocked()

    after = wconfd.schedules[NIGHTLY.uuid]
    assert [error.fields["current_tag"] for error in refused] == [after.tag] * 2
    assert (after.is_paused, after.job) == (True, NIGHTLY.job)
    with pytest.raises(PreconditionFailed):
        await schedules.remove_schedule(RemoveScheduleOf(NIGHTLY.name, seen), ROOT)
    assert await schedules.remove_schedule(RemoveScheduleOf(NIGHTLY.name, Condition(tags=(after.tag,))), ROOT)


async def test_a_change_that_is_delivered_twice_is_made_once() -> None:
    schedules, checks, wconfd = calls()
    checks.is_found.set()
    change = ChangeSchedule(ScheduleRequest(name=NIGHTLY.name, overlap=Overlap.ALLOW), Condition(tags=(NIGHTLY.tag,)))

    views = [await schedules.change_schedule(change, ROOT) for _ in range(2)]

    assert views[0] == views[1]
    assert wconfd.schedules[NIGHTLY.uuid].overlap is Overlap.ALLOW


async def test_what_others_may_not_see_is_not_in_the_tag_that_they_get() -> None:
    schedules, _, __ = calls()
    stranger = Peer(1, 2000, 2000, role=Role.READ)

    (hers,) = await schedules.list_schedules(ListSchedules(0), ROOT)
    (others,) = await schedules.list_schedules(ListSchedules(0), stranger)

    assert (hers.tag, others.tag) == (NIGHTLY.tag, "")


async def test_the_last_schedules_of_all_are_for_operators() -> None:
    names = [f"s{number}" for number in range(MOST_SCHEDULES - RESERVED_SCHEDULES)]
    wconfd = Wconfd(*(attrs.evolve(NIGHTLY, uuid=name, name=name, uid=number) for number, name in enumerate(names)))
    users = Users({1: Role.SUBMIT, 2: Role.OPERATE})
    book = ScheduleBook(cast(Client, wconfd))
    schedules = Schedules(book, cast(Any, users), cast(Any, users), LimitsSettings(), lambda _: ())

    def wish(name: str) -> AddSchedule:
        return AddSchedule(ScheduleRequest(name=name, every_s=60.0, job=OTHER_JOB))

    with pytest.raises(Conflict, match=r"there are 9500 schedules, of at most 9500; .* reserved for operators"):
        await schedules.add_schedule(wish("hers"), Peer(1, 1, 1, role=Role.SUBMIT))
    assert (await schedules.add_schedule(wish("his"), Peer(1, 2, 2, role=Role.OPERATE))).schedule.name == "his"


async def test_nobody_sees_no_schedules_while_they_are_being_read(nursery: trio.Nursery) -> None:
    """Who came second, after a start, was told that there were none."""
    wconfd, found = SlowWconfd(NIGHTLY), []
    book = ScheduleBook(cast(Client, wconfd))

    async def look() -> None:
        found.append(await book.named(NIGHTLY.name))

    for _ in range(2):
        nursery.start_soon(look)
        await wait_all_tasks_blocked()
    assert found == []
    # a connection that begins meanwhile: they are read once more
    book.forget()
    wconfd.replies.set()
    await wait_all_tasks_blocked()

    assert found == [NIGHTLY, NIGHTLY]
    assert wconfd.reads == 2
    assert not book.is_stale


async def test_schedules_that_could_not_be_read_are_read_by_the_next(nursery: trio.Nursery) -> None:
    wconfd = SlowWconfd(NIGHTLY)
    wconfd.failures.append(Unavailable("it is away"))
    wconfd.replies.set()
    book = ScheduleBook(cast(Client, wconfd))

    with pytest.raises(Unavailable):
        await book.require()
    assert await book.named(NIGHTLY.name) == NIGHTLY
