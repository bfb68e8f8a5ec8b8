"""A daemon that is told to stop ends what only waits, and finishes the rest (`daemons/rapid/load.py`)."""

from collections.abc import AsyncGenerator, MutableMapping
from typing import Any, cast

import pytest
import trio
from starlette.responses import HTMLResponse, RedirectResponse, Response

from daemons.rapid.application import RapidApplication
from daemons.rapid.load import Load
from daemons.rapid.streams import ByteStream
from daemons.rapid.transport.routing import Routes

SCOPE = {"type": "http", "method": "GET", "path": "/ui"}
NOTHING = cast(Any, None)


async def _sent(response: Response) -> list[MutableMapping[str, Any]]:
    """What is sent of a reply that is made when the daemon was told to stop."""
    load = Load()
    application = RapidApplication(Routes([]), NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, load)
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    load.stop()
    await application._send(response, dict(SCOPE), trio.sleep_forever, send)
    return sent


async def _endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"more"
        await trio.lowlevel.checkpoint()


@pytest.mark.trio
@pytest.mark.parametrize(
    ("response", "body"), [(Response(b"x"), b"x"), (HTMLResponse("x"), b"x"), (RedirectResponse("/ui", 303), b"")]
)
async def test_a_reply_that_is_whole_is_sent(response: Response, body: bytes) -> None:
    start, end = await _sent(response)

    assert start["status"] == response.status_code
    assert end["body"] == body


@pytest.mark.trio
async def test_a_stream_is_ended() -> None:
    assert await _sent(ByteStream(_endless(), {})) == []
