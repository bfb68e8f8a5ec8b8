"""A master whose watchdog cannot be opened is unfit: others count on that watchdog (lease.md 2 and 6)."""

from pathlib import Path

import attrs
import pytest
import trio

from common.featuresettings import EtcdSettings, KeeperdSettings
from common.lease.deadline import boottime
from common.paths import Paths
from common.settings import Settings
from daemons.keeperd.ailments import Ailments
from daemons.keeperd.core.events import Event, FitnessChanged
from daemons.keeperd.renewer import Renewer
from tests.support.wait import wait_until_async

pytestmark = pytest.mark.trio


async def test_a_watchdog_that_is_gone_when_the_mastership_begins_makes_the_node_unfit(tmp_path: Path) -> None:
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    settings = attrs.evolve(
        Settings(paths=paths),
        etcd=EtcdSettings(endpoints=("http://127.0.0.1:1",)),
        keeperd=KeeperdSettings(watchdog=str(tmp_path / "gone")),
    )
    events: list[Event] = []
    ailments = Ailments(settings, events.append)
    renewer = Renewer(settings, events.append, lambda: True, ailments.watchdog)
    async with trio.open_nursery() as nursery:
        await nursery.start(renewer.run)

        renewer.hold(1, boottime() + 3600)

        await wait_until_async(lambda: ailments.reasons, what="the watchdog to be missed")
        nursery.cancel_scope.cancel()
    (reason,) = ailments.reasons
    assert str(tmp_path / "gone") in reason
    assert events == [FitnessChanged((reason,))]
