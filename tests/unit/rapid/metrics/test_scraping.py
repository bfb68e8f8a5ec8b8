"""The numbers are read seldom, and a daemon that is away hides only its own."""

from typing import Any, cast

import pytest
import trio
from starlette.requests import Request as HttpRequest
from trio.testing import MockClock

from common.errors import Unavailable
from common.webaccess.rights import NOBODY
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.metrics.scraping import FRESH_S, MetricHandlers, rows
from tests.unit.rapid.metrics.numbers import HTTP, LUXID, MASTERSHIP, WCONFD

pytestmark = pytest.mark.trio


class Callee:
    def __init__(self, reply: object, pause_s: float = 0.0) -> None:
        self._reply = reply
        self._pause_s = pause_s
        self.calls = 0

    async def call(self, request: Any) -> Any:
        self.calls += 1
        await trio.sleep(self._pause_s)
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply


def asked(accept: bytes = b"*/*") -> Asked:
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [(b"accept", accept)]}
    # no daemon is called in the caller's name
    return Asked(HttpRequest(scope), NOBODY, cast(Daemons, None))


async def test_many_clients_share_one_reading_for_a_while(mock_clock: MockClock) -> None:
    luxid, wconfd = Callee(LUXID), Callee(WCONFD)
    handlers = MetricHandlers(luxid, wconfd, lambda: HTTP, is_for_anybody=False)

    for accept in (b"*/*", b"application/openmetrics-text", b"text/plain; x=y", b"*/*"):
        assert (await handlers.read_metrics(asked(accept))).status_code == 200
    assert (luxid.calls, wconfd.calls) == (1, 1)

    mock_clock.jump(FRESH_S)
    await handlers.read_metrics(asked())
    assert (luxid.calls, wconfd.calls) == (2, 2)


async def test_a_daemon_that_is_away_is_told_to_be_so() -> None:
    handlers = MetricHandlers(Callee(Unavailable("gone")), Callee(WCONFD), lambda: HTTP, is_for_anybody=False)

    text = bytes((await handlers.read_metrics(asked())).body).decode()

    assert 'gantry_up{daemon="luxid"} 0.0' in text
    assert 'gantry_up{daemon="wconfd"} 1.0' in text
    assert "gantry_jobs" not in text
    assert "gantry_locks_held" in text


async def test_the_order_of_the_daemons_does_not_depend_on_who_replies_first() -> None:
    for pauses in ((0.0, 0.01), (0.01, 0.0)):
        luxid, wconfd = (Callee(reply, pause_s) for reply, pause_s in zip((LUXID, WCONFD), pauses, strict=True))
        handlers = MetricHandlers(luxid, wconfd, lambda: HTTP, is_for_anybody=False)

        text = bytes((await handlers.read_metrics(asked())).body).decode()

        lines = [line for line in text.splitlines() if line.startswith("gantry_up{")]
        assert lines == [f'gantry_up{{daemon="{name}"}} 1.0' for name in ("luxid", "wconfd", "rapid")]


async def test_who_may_read_them_is_a_setting() -> None:
    def row(*, is_for_anybody: bool) -> Any:
        (call,) = rows(MetricHandlers(Callee(None), Callee(None), lambda: HTTP, is_for_anybody=is_for_anybody))
        return call

    assert [right.value for right in row(is_for_anybody=False).rights] == ["metrics.read"]
    assert row(is_for_anybody=True).rights == ()


async def test_of_keeperd_only_the_numbers_of_the_mastership_are_told() -> None:
    keeperd = Callee(MASTERSHIP)
    handlers = MetricHandlers(Callee(LUXID), Callee(WCONFD), lambda: HTTP, is_for_anybody=False, keeperd=keeperd)

    text = bytes((await handlers.read_metrics(asked())).body).decode()

    assert "gantry_is_master 1.0" in text
    assert 'daemon="keeperd"' not in text
