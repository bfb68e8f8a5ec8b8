"""The task that submits deliveries, and the instant since which jobs are looked at again (DESIGN section 16)."""

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
import orjson
import pytest
import trio
from trio.testing import MockClock

from common.errors import GantryError, Unavailable
from common.ids import JobId
from common.objects.index import ConfigIndex
from common.queue.jobs import Job, JobOp, JobState
from daemons.luxid import notifying
from daemons.luxid.config import ConfigurationMissing
from daemons.luxid.notifying import JobNotifier
from daemons.luxid.outboxes import NoticeOutbox
from tests.support.configs import small_config
from tests.support.notifying import settings_of

pytestmark = pytest.mark.trio
BEGIN = 1_790_000_000.0
DAY = 86_400.0


@attrs.define
class Live:
    """As much of the live jobs as is asked here."""

    notices: NoticeOutbox = attrs.Factory(NoticeOutbox)


async def nobody() -> Any:
    raise AssertionError("there is no event")


async def submit(op: Mapping[str, object], key: str) -> JobId:
    raise AssertionError("there is no event")


async def at_once(work: Callable[..., None], *args: object) -> None:
    """Instead of a thread, which a clock that jumps does not wait for."""
    work(*args)


async def test_the_instant_moves_on_while_nothing_is_told(
    tmp_path: Path, autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After days without an event a restart looked at jobs whose deliveries had lost their keys, and told twice."""
    begun = trio.current_time()
    monkeypatch.setattr(notifying, "time", types.SimpleNamespace(time=lambda: BEGIN + trio.current_time() - begun))
    monkeypatch.setattr(notifying, "in_thread", at_once)
    settings = settings_of(tmp_path)
    of_luxid = JobNotifier(settings, cast(Any, Live()), nobody, lambda: JobId(7))
    of_luxid.recover([])

    nursery.start_soon(of_luxid.run, submit)
    await trio.sleep(2 * DAY)

    since = orjson.loads(settings.paths.notify_since.read_bytes())["since"]
    assert BEGIN + 2 * DAY - 2 * 3600 < since < BEGIN + 2 * DAY - 3000


@pytest.mark.parametrize("failure", [ConfigurationMissing("wconfd is away"), Unavailable("the disk is full")])
async def test_what_cannot_be_told_now_is_told_later(
    failure: GantryError, tmp_path: Path, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    live, keys, failures = Live(), list[str](), [failure]

    async def configuration() -> ConfigIndex:
        if failures:
            raise failures.pop()
        return ConfigIndex(small_config())

    async def take(op: Mapping[str, object], key: str) -> JobId:
        keys.append(key)
        return JobId(8)

    of_luxid = JobNotifier(settings_of(tmp_path), cast(Any, live), configuration, lambda: JobId(7))
    of_luxid.recover([])
    nursery.start_soon(of_luxid.run, take)

    live.notices.ended(Job(JobId(7), (JobOp({"OP_ID": "OP_TEST_DUMMY"}, state=JobState.ERROR),)))
    await trio.sleep(10)

    assert keys == ["notify/7/error/r"]
    assert len(live.notices) == 0
