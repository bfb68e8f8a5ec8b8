"""A daemon that is there, and refuses a subscription for now: it is asked again, but not without pauses."""

from pathlib import Path

import pytest
import trio

from common.errors import RemoteError, Unavailable
from protocol.client import Client
from protocol.luxi.feed import FeedBegin, FeedTopic, Subscribe
from protocol.subscriptions import LuxidFeed, WconfdEvents

# attempts within ten seconds that do not occupy the daemon
_FEW = 20
_LACKS = RemoteError("the configuration cannot be had", code=Unavailable.code, wire_name="GenericError")


class _Daemon:
    """Refuses, or ends each stream at once. Args: takes: whether it takes the subscription first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, takes: bool) -> None:
        self.asked = 0
        self._takes = takes
        monkeypatch.setattr(Client, "subscribe", self._subscribe)
        monkeypatch.setattr(Client, "event", self._event)

    async def _subscribe(self, request: object, speaker: object = None) -> object:
        await trio.lowlevel.checkpoint()
        self.asked += 1
        assert self.asked < 1000, "it asks without a pause"
        if not self._takes:
            raise _LACKS
        return FeedBegin("place") if isinstance(request, Subscribe) else ((), 1)

    async def _event(self) -> tuple[str, list[object]]:
        await trio.lowlevel.checkpoint()
        raise _LACKS


@pytest.mark.trio
@pytest.mark.parametrize("takes", [False, True])
async def test_a_refused_follower_of_the_queue_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock, takes: bool
) -> None:
    luxid = _Daemon(monkeypatch, takes=takes)
    feed = LuxidFeed(tmp_path / "query", Subscribe((FeedTopic.JOBS,)))

    with trio.move_on_after(10):
        while True:
            await feed.next()

    assert 5 < luxid.asked <= _FEW


@pytest.mark.trio
@pytest.mark.parametrize("takes", [False, True])
async def test_a_refused_follower_of_locks_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.abc.Clock, takes: bool
) -> None:
    wconfd = _Daemon(monkeypatch, takes=takes)
    events = WconfdEvents(tmp_path / "wconfd")

    with trio.move_on_after(10):
        while True:
            await events.next()

    assert 5 < wconfd.asked <= _FEW
