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

from common.ids import JobId
from common.settingsfile import load_settings
from common.settingwords.notifysettings import NotifyRule, NotifySettings
from daemons.luxid.notifying import telling
from daemons.luxid.notifying.telling import Telling
from daemons.luxid.untold import Untold

pytestmark = pytest.mark.trio
BEGIN = 1_790_000_000.0
DAY = 86_400.0


@attrs.define
class Live:
    """As much of the live jobs as is asked here."""

    untold: Untold = attrs.Factory(Untold)


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
    monkeypatch.setattr(telling, "time", types.SimpleNamespace(time=lambda: BEGIN + trio.current_time() - begun))
    monkeypatch.setattr(telling, "in_thread", at_once)
    rules = NotifySettings(rules={"r": NotifyRule(on=("end",), program=("/bin/true",))})
    settings = attrs.evolve(load_settings(tmp_path), notify=rules)
    settings.paths.make_folders()
    of_luxid = Telling(settings, cast(Any, Live()), nobody, lambda: JobId(7))
    of_luxid.recover([])

    nursery.start_soon(of_luxid.run, submit)
    await trio.sleep(2 * DAY)

    since = orjson.loads(settings.paths.notify_since.read_bytes())["since"]
    assert BEGIN + 2 * DAY - 2 * 3600 < since < BEGIN + 2 * DAY - 3000
