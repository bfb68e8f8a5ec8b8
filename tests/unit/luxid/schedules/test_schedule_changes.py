"""Changes of one schedule that meet: none is lost, and what was removed stays so (DESIGN section 16)."""

from typing import Any, cast

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from common.access import Role
from common.errors import NotFound
from common.settings import LimitsSettings
from daemons.luxid.core.rights import Submitter
from daemons.luxid.handlers.schedules import Schedules
from daemons.luxid.schedules import ScheduleBook
from protocol.client import Client
from protocol.luxi.queue import ChangeSchedule, PauseSchedule, RemoveScheduleOf, ScheduleWish
from protocol.peer import Peer
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


def calls() -> tuple[Schedules, SlowChecks, Wconfd]:
    checks, wconfd = SlowChecks(), Wconfd(NIGHTLY)
    parts = cast(Any, checks)
    return Schedules(ScheduleBook(cast(Client, wconfd)), parts, parts, LimitsSettings(), lambda _: ()), checks, wconfd


async def test_a_pause_outlives_a_change_that_was_being_checked(nursery: trio.Nursery) -> None:
    schedules, checks, wconfd = calls()
    wish = ScheduleWish(name=NIGHTLY.name, job=OTHER_JOB)
    nursery.start_soon(schedules.change_schedule, ChangeSchedule(wish), ROOT)
    await wait_all_tasks_blocked()

    await schedules.pause_schedule(PauseSchedule(NIGHTLY.name, True), ROOT)
    checks.is_found.set()
    await wait_all_tasks_blocked()

    after = wconfd.schedules[NIGHTLY.uuid]
    assert (after.is_paused, after.job) == (True, OTHER_JOB)


async def test_a_change_does_not_bring_back_what_was_removed_meanwhile(nursery: trio.Nursery) -> None:
    schedules, checks, wconfd = calls()
    wish = ScheduleWish(name=NIGHTLY.name, job=OTHER_JOB)
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
