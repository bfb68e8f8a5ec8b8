"""The ASGI application: Ganeti's paths, and the same as numbers for Prometheus. Only GET.

Source: mond.md 2.
"""

from collections.abc import Mapping
from typing import Final

import attrs
from anycorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope

from common.asciijson import ascii_json
from daemons.mond.collecting import Reports
from daemons.mond.core.exposition import CONTENT_TYPE, render
from daemons.mond.core.reports import encode_all
from protocol.http.body import Bodies, HungUp

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_REPORT: Final = "/1/report/"


@attrs.frozen
class Page:
    status: int
    content_type: str
    body: bytes

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        length = b"%d" % len(self.body)
        return [(b"content-type", self.content_type.encode()), (b"content-length", length)]


# the words are Ganeti's
_NO_PAGE: Final = Page(404, _TEXT, b"Resource not found")
_NO_REPORT: Final = Page(404, _TEXT, b"Unable to produce a report for the requested resource")
_FIXED: Final[Mapping[str, Page]] = {
    "/": Page(200, _JSON, b"[1]"),
    "/1": Page(200, _JSON, b"null"),
    "/1/": Page(200, _JSON, b"null"),
}


class Application:
    """Serves the last reports."""

    def __init__(self, reports: Reports, bodies: Bodies) -> None:
        self._reports = reports
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": None})
            return
        try:
            await self._bodies.skip(receive)
        except HungUp:
            return
        page = self.page(str(scope["path"])) if scope["method"] == "GET" else _NO_PAGE
        await send({"type": "http.response.start", "status": page.status, "headers": page.headers})
        await send({"type": "http.response.body", "body": page.body, "more_body": False})

    def page(self, path: str) -> Page:
        """What is at a path."""
        if path in _FIXED:
            return _FIXED[path]
        if path == "/metrics":
            return Page(200, CONTENT_TYPE, render(self._reports.all_numbers()).encode())
        if path == "/1/list/collectors":
            return Page(200, _JSON, ascii_json([each.about.to_wire() for each in self._reports.active]))
        if path == "/1/report/all":
            return Page(200, _JSON, encode_all(each.report for each in self._reports.active))
        if not path.startswith(_REPORT):
            return _NO_PAGE
        category, has_name, name = path.removeprefix(_REPORT).partition("/")
        if not has_name:
            return _NO_PAGE
        report = self._reports.find(category, name)
        return _NO_REPORT if report is None else Page(200, _JSON, report.encode())
