"""A client that follows jobs ends when luxid does not come back, such as after the master has moved (DESIGN 14)."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from cli.live import following
from cli.live.following import JobFeed
from common.errors import ConnectionLost, GantryError, RemoteError, Unavailable
from protocol.luxi.feed import FeedBegin

GONE = Unavailable("luxid does not answer")
REFUSED = RemoteError("this node is no longer the master", code="unavailable", wire_name="Unavailable")


class Feed:
    """A feed that breaks after its beginning; then luxid is away for some attempts."""

    def __init__(self, error: GantryError, away: int) -> None:
        self._error, self._away = error, away
        self.attempts = 0

    def subscribe(self, request: object, *, timeout_s: float | None = None) -> Any:
        self.attempts += 1
        if 1 < self.attempts <= 1 + self._away:
            raise self._error
        ends = ["success"] if self.attempts > 1 else ["running"]
        return FeedBegin("1:1", jobs=[[7, ends, []]])

    def event(self, timeout_s: float | None = None) -> None:
        raise ConnectionLost("luxid closed the connection")

    def close(self) -> None:
        pass


def followed(feed: Feed) -> JobFeed:
    found = JobFeed(cast(Any, feed), cast(Callable[[], Any], None), [7], ("status",), has_log=False)
    found.begin()
    return found


@pytest.mark.parametrize("error", [GONE, REFUSED])
def test_it_ends_with_the_reason(error: GantryError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RESTART_S", 0.1)
    feed = Feed(error, 1000)

    with pytest.raises(type(error), match=error.message):
        list(followed(feed))
    assert feed.attempts < 1000


@pytest.mark.parametrize("error", [GONE, REFUSED])
def test_it_goes_on_when_luxid_is_back(error: GantryError) -> None:
    feed = Feed(error, 3)

    found = followed(feed)
    list(found)
    assert (found.unended, feed.attempts) == ([], 5)
