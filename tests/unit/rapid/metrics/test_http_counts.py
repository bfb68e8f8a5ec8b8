"""Requests are counted around the application (DESIGN section 15)."""

from typing import Any

import pytest

from daemons.rapid.calls import WAITS
from daemons.rapid.metrics.httpcounts import GONE, CountedApplication, HttpCounts, part_of


async def nothing() -> dict[str, Any]:
    raise AssertionError("nothing is received here")


async def ignore(_: Any) -> None:
    pass


def start(status: int, content_type: bytes = b"application/json") -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"Content-Type", content_type)]}


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("/2/jobs", "/2"),
        ("/3", "/3"),
        ("/ui/jobs/7", "/ui"),
        ("/metrics", "/metrics"),
        ("/", "other"),
        ("/20", "other"),
    ],
)
def test_paths_belong_to_few_parts(path: str, part: str) -> None:
    assert part_of(path) == part


@pytest.mark.trio
async def test_a_reply_is_counted_by_part_and_class_of_status() -> None:
    counts = HttpCounts()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(404))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    await CountedApplication(app, counts)({"type": "http", "path": "/3/jobs/9"}, nothing, ignore)

    assert counts.requests == {("/3", "4xx"): 1}
    assert counts.times["/3"].read().count == 1


@pytest.mark.trio
async def test_a_stream_is_open_until_it_ends_even_by_a_failure() -> None:
    counts = HttpCounts()
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(200, b"text/event-stream; charset=utf-8"))
        seen.append(counts.streams)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await CountedApplication(app, counts)({"type": "http", "path": "/3/events"}, nothing, ignore)

    assert (seen, counts.streams) == ([1], 0)


@pytest.mark.trio
async def test_a_request_that_only_waits_is_counted_but_not_timed() -> None:
    counts = HttpCounts()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope[WAITS] = True
        await send(start(200))

    await CountedApplication(app, counts)({"type": "http", "path": "/2/jobs/1/wait"}, nothing, ignore)

    assert counts.requests == {("/2", "2xx"): 1}
    assert counts.times["/2"].read().count == 0


@pytest.mark.trio
async def test_a_client_that_goes_before_the_reply_is_counted_as_gone() -> None:
    counts = HttpCounts()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    await CountedApplication(app, counts)({"type": "http", "path": "/2/jobs/1/wait"}, nothing, ignore)

    assert counts.requests == {("/2", GONE): 1}
