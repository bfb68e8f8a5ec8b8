"""The rows that show the document: as JSON, and as a page for people.

Source: DESIGN section 15.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import orjson
from starlette.responses import Response

from common.system.inthread import in_thread
from daemons.rapid.calls import Asked, Call, Face
from daemons.rapid.openapi.docpage import CSS, POLICY, draw_docs, draw_problems
from daemons.rapid.openapi.document import openapi

_HTML: Final = "text/html; charset=utf-8"


class _Kept:
    """A reply that is made at the first request, in a thread, and then kept."""

    def __init__(self, make: Callable[[], str | bytes], media_type: str) -> None:
        self._make = make
        self._media_type = media_type
        self._body: bytes | None = None
        self._etag = ""

    async def reply(self, asked: Asked) -> Response:
        if self._body is None:
            body = await in_thread(self._make)
            self._body = body.encode() if isinstance(body, str) else body
            self._etag = f'"{hashlib.sha256(self._body).hexdigest()[:20]}"'
        headers = {
            "ETag": self._etag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
        }
        if _names(asked.http.headers.get("if-none-match", ""), self._etag):
            return Response(status_code=304, headers=headers)
        return Response(self._body, headers=headers, media_type=self._media_type)


def _names(header: str, etag: str) -> bool:
    """Whether a client has this: proxies that compress a reply make its tag weak, and caches send several."""
    tags = [each.strip().removeprefix("W/") for each in header.split(",")]
    return etag in tags or tags == ["*"]


def rows(table: Sequence[Call], version: str) -> Sequence[Call]:
    """The rows of the document of a table.

    Args: table: all other rows.
    """
    own: list[Call] = []

    def document() -> Mapping[str, object]:
        return openapi([*table, *own], version)

    as_json = _Kept(lambda: orjson.dumps(document()), "application/json")
    docs = _Kept(lambda: draw_docs(document()), _HTML)
    problems = _Kept(draw_problems, _HTML)
    css = _Kept(lambda: CSS, "text/css; charset=utf-8")
    own.append(
        Call(
            "GET",
            "/3/openapi.json",
            as_json.reply,
            "This document.",
            gives=Mapping[str, object],
            tag="documentation",
        )
    )
    pages = (
        ("/3/docs", docs, "This document as a page."),
        ("/3/problems", problems, "What the codes of problems mean."),
    )
    return [
        *own,
        *(Call("GET", path, kept.reply, summary, face=Face.PAGE, tag="documentation") for path, kept, summary in pages),
        Call("GET", "/3/docs.css", css.reply, "Their style.", face=Face.PAGE, tag="documentation"),
    ]
