"""What is at which path: Ganeti's paths, and the same as numbers for Prometheus. Only GET.

Source: mond.md 2.
"""

from collections.abc import Mapping
from typing import Final

from common.asciijson import ascii_json
from daemons.mond.collecting import Reports
from daemons.mond.core.exposition import CONTENT_TYPE, render
from daemons.mond.core.reports import encode_all
from protocol.http.plainpages import JSON, Page

_TEXT: Final = "text/plain; charset=utf-8"
_REPORT: Final = "/1/report/"

# the words are Ganeti's
_NO_PAGE: Final = Page(404, _TEXT, b"Resource not found")
_NO_REPORT: Final = Page(404, _TEXT, b"Unable to produce a report for the requested resource")
_FIXED: Final[Mapping[str, Page]] = {
    "/": Page(200, JSON, b"[1]"),
    "/1": Page(200, JSON, b"null"),
    "/1/": Page(200, JSON, b"null"),
}


class Application:
    """Serves the last reports."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def page(self, path: str, method: str) -> Page:
        """What is at a path."""
        if method != "GET":
            return _NO_PAGE
        if path in _FIXED:
            return _FIXED[path]
        if path == "/metrics":
            return Page(200, CONTENT_TYPE, render(self._reports.all_numbers()).encode())
        if path == "/1/list/collectors":
            return Page(200, JSON, ascii_json([each.about.to_wire() for each in self._reports.active]))
        if path == "/1/report/all":
            return Page(200, JSON, encode_all(each.report for each in self._reports.active))
        if not path.startswith(_REPORT):
            return _NO_PAGE
        category, has_name, name = path.removeprefix(_REPORT).partition("/")
        if not has_name:
            return _NO_PAGE
        report = self._reports.find(category, name)
        return _NO_REPORT if report is None else Page(200, JSON, report.encode())
