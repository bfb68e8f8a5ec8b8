"""mond: tells what this node measures of itself. The only module that knows all its parts.

Source: DESIGN section 12; mond.md 1.
"""

from collections.abc import Mapping
from typing import Final

import trio

from common.daemons import Feature
from common.jsontext import ascii_json
from common.settings import Settings
from common.system.daemon import listen_options, run_daemon, tell_if_enabled
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.mond.collecting import Reports, RhythmsByConfd, make_collectors
from daemons.mond.core.reports import CONTENT_TYPE, encode_all, render
from protocol.http.connections import JSON, PlainPages, PlainReply, open_listener

# What is at which path: Ganeti's paths, and the same as numbers for Prometheus. Only GET.
#
# Source: mond.md 2.


_TEXT: Final = "text/plain; charset=utf-8"
_REPORT: Final = "/1/report/"

# the words are Ganeti's
_NO_PAGE: Final = PlainReply(404, _TEXT, b"Resource not found")
_NO_REPORT: Final = PlainReply(404, _TEXT, b"Unable to produce a report for the requested resource")
_FIXED: Final[Mapping[str, PlainReply]] = {
    "/": PlainReply(200, JSON, b"[1]"),
    "/1": PlainReply(200, JSON, b"null"),
    "/1/": PlainReply(200, JSON, b"null"),
}


class ReportApplication:
    """Serves the last reports."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports

    def page(self, path: str, method: str) -> PlainReply:
        """What is at a path."""
        if method != "GET":
            return _NO_PAGE
        if path in _FIXED:
            return _FIXED[path]
        if path == "/metrics":
            return PlainReply(200, CONTENT_TYPE, render(self._reports.all_numbers()).encode())
        if path == "/1/list/collectors":
            return PlainReply(200, JSON, ascii_json([each.about.to_wire() for each in self._reports.active]))
        if path == "/1/report/all":
            return PlainReply(200, JSON, encode_all(each.report for each in self._reports.active))
        if not path.startswith(_REPORT):
            return _NO_PAGE
        category, has_name, name = path.removeprefix(_REPORT).partition("/")
        if not has_name:
            return _NO_PAGE
        report = self._reports.find(category, name)
        return _NO_REPORT if report is None else PlainReply(200, JSON, report.encode())


NAME: Final = "mond"
# seconds that the start waits for first reports
_PATIENCE_S: Final = 1.0
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-mond; with --check-enabled it only says, by its exit code, whether the settings enable it."""
    tell_if_enabled(Feature.MONITORING)
    run_daemon(NAME, "Tells what this node measures of itself.", serve, own=listen_options(NAME))


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run mond; started when it listens, and most collectors have a first report.

    Raises: Unavailable: the port is taken.
    """
    reports = Reports(await in_thread(make_collectors, settings))
    connections = PlainPages(ReportApplication(reports).page).connections()
    address, port = settings.mond_address, settings.mond.port
    with open_listener(address, port, where="'address' and 'port' in [mond]") as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reports.run)
            await reports.first_reports(_PATIENCE_S)
            nursery.start_soon(RhythmsByConfd(settings, reports).run)
            nursery.start_soon(connections.serve, listener)
            _log.info("reports.served", address=address or "*", port=port, collectors=len(reports.active))
            task_status.started()


if __name__ == "__main__":
    main()
