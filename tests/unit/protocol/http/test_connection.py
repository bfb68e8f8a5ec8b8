"""HTTP on one connection of a daemon: what a client sees of an application that is cancelled."""

import socket
from typing import Any, cast

import pytest
import trio
from anycorn import Config
from anycorn.app_wrappers import ASGIWrapper
from anycorn.typing import ASGIFramework, ConnectionState
from anycorn.worker_context import WorkerContext

from protocol.http.connection import HttpConnection, plain_failure
from protocol.http.connections import DirectStream

pytestmark = pytest.mark.trio


async def test_an_application_cancelled_before_its_head_is_sent_is_not_answered_for() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        assert cancelled.cancelled_caught

    config = Config()
    config.accesslog, config.include_date_header, config.include_server_header = None, False, False
    connection = HttpConnection(
        ASGIWrapper(cast(ASGIFramework, app)),
        config,
        WorkerContext(None),
        ConnectionState({}),
        DirectStream(theirs),
        draw_failure=plain_failure,
        is_idle=lambda _: None,
    )
    with trio.socket.from_stdlib_socket(ours) as sock:
        await sock.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await connection.run()

        assert await sock.recv(1) == b""
