"""Small pages over plain HTTP. Source: `protocol/http/connections.py`."""

from typing import Any, cast

import pytest
import trio

from protocol.http.connections import PlainPages, PlainReply


def asked(method: str, *, is_gone: bool = False) -> list[dict[str, Any]]:
    """What is sent for a request of this method."""
    pages = PlainPages(lambda path, how: PlainReply.of(200, [path, how]), ((b"x-more", b"1"),))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"} if is_gone else {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    trio.run(
        pages,
        cast(Any, {"type": "http", "method": method, "path": "/a", "headers": []}),
        cast(Any, receive),
        cast(Any, send),
    )
    return sent


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_reply_tells_its_length_and_head_gets_no_body(method: str) -> None:
    start, end = asked(method)

    page = PlainReply.of(200, ["/a", method])
    assert start["status"] == 200
    assert dict(start["headers"]) == {
        b"content-type": b"application/json",
        b"content-length": b"%d" % len(page.body),
        b"x-more": b"1",
    }
    assert end["body"] == (b"" if method == "HEAD" else page.body)


def test_who_has_hung_up_gets_no_page() -> None:
    assert asked("GET", is_gone=True) == []
