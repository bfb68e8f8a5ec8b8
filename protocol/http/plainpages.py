"""Small pages over plain HTTP, made from the path and the method alone: for those who watch this node.

Source: mond.md 2; lease.md 2.
"""

from collections.abc import Callable
from typing import Final, cast

import attrs
from anycorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope

from common.asciijson import ascii_json
from protocol.http.body import Bodies, HungUp
from protocol.http.connections import Connections

JSON: Final = "application/json"
# bytes of a body, which no request needs, and seconds for it
_BODY_BYTES: Final = 2**16
_BODY_S: Final = 10.0


@attrs.frozen
class Page:
    status: int
    content_type: str
    body: bytes

    @classmethod
    def of(cls, status: int, value: object) -> "Page":
        """The value as JSON."""
        return cls(status, JSON, ascii_json(value))


@attrs.frozen
class _Rules:
    """Bounds of the connections: a few watchers, one request at a time each."""

    max_clients: int = 100
    handshake_timeout_s: float = 5.0
    idle_timeout_s: float = 10.0
    stop_timeout_s: float = 1.0


class PlainPages:
    """An ASGI application.

    Args:
        page: path and method -> what is there.
        headers: of each reply, besides those of the body.
    """

    def __init__(self, page: Callable[[str, str], Page], headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self._page = page
        self._headers = headers
        self._bodies = Bodies(_BODY_BYTES, _BODY_S)

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": None})
            return
        try:
            await self._bodies.skip(scope, receive)
        except HungUp:
            return
        method = str(scope["method"])
        page = self._page(str(scope["path"]), method)
        about = [(b"content-type", page.content_type.encode()), (b"content-length", b"%d" % len(page.body))]
        body = b"" if method == "HEAD" else page.body
        await send({"type": "http.response.start", "status": page.status, "headers": [*about, *self._headers]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def connections(self) -> Connections:
        """The connections of a listener that serves these pages; idle ones make room for new ones."""
        return Connections(cast(ASGIFramework, self), None, _Rules(), spare=8)
