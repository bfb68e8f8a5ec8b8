"""rapid's own requests: counted around the application, whatever becomes of them inside.

Theory. A request is counted when its reply begins, with the class of its status. The time until then is added to a
histogram, but not of requests that only wait for an event. A stream is open from its first byte until it ends.

Source: DESIGN section 15.
"""

import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

import attrs
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.metrics import WORK_S, Histograms, Metrics, counter, gauge, histogram
from daemons.rapid.calls import WAITS
from protocol.rapid.luxi import STREAM_TYPE

# parts of the interface by the beginning of a path; of others `OTHER`
_PARTS: Final = {"2": "/2", "3": "/3", "luxi": "/luxi", "ui": "/ui", "metrics": "/metrics"}
OTHER: Final = "other"
PARTS: Final = (*_PARTS.values(), OTHER)
# status of a request whose client went before its reply began, as some proxies note it
GONE: Final = "gone"
_STREAMS: Final = (b"text/event-stream", STREAM_TYPE.encode())


@attrs.define
class HttpCounts(Metrics):
    """The numbers since the start."""

    requests: Counter[tuple[str, str]] = counter(
        "http_requests",
        "Requests by part of the interface and class of the status; gone: the client went before the reply.",
        "part",
        "status",
    )
    times: Histograms = histogram(
        "http_request_seconds",
        "Time until the reply begins, without requests that wait for an event.",
        "part",
        bounds=WORK_S,
        keys=PARTS,
    )
    # replies with events
    streams: int = gauge("http_streams", "Streams of events that are open.")


@attrs.frozen(kw_only=True)
class HttpNow(Metrics):
    """Requests and connections at this moment."""

    long_polls: int = gauge("http_long_polls", "Requests that wait for an event.")
    connections: Mapping[str, int] = gauge(
        "http_connections", "Connections of clients, by the way that they came.", "over"
    )
    luxid_connections: Mapping[str, int] = gauge(
        "http_luxid_connections", "Connections of rapid to luxid, by what they do.", "state"
    )


class CountedApplication:
    """An ASGI application whose requests are counted."""

    def __init__(self, app: ASGIApp, counts: HttpCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        part, began, counts = part_of(scope["path"]), time.perf_counter(), self._counts
        has_begun = is_stream = False

        async def send_counted(message: Message) -> None:
            nonlocal has_begun, is_stream
            if message["type"] == "http.response.start" and not has_begun:
                has_begun, is_stream = True, _is_stream(message)
                counts.requests[part, f"{message['status'] // 100}xx"] += 1
                counts.streams += is_stream
                if not scope.get(WAITS):
                    counts.times[part].add(time.perf_counter() - began)
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            counts.streams -= is_stream
            if not has_begun:
                counts.requests[part, GONE] += 1


def _is_stream(message: Message) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(_STREAMS) for name, value in message["headers"])


def part_of(path: str) -> str:
    """The part of the interface to which a path belongs."""
    return _PARTS.get(path[1:].partition("/")[0], OTHER)
