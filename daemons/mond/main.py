"""mond: tells what this node measures of itself. The only module that knows all its parts.

Source: DESIGN section 12; mond.md 1.
"""

from typing import Final

import trio

from common.daemons import Feature
from common.settings import Settings
from common.system.daemons.daemon import run_daemon
from common.system.daemons.listenoptions import listen_options, tell_if_enabled
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.mond.application import Application
from daemons.mond.collecting import Reports
from daemons.mond.registry import make_collectors
from daemons.mond.rhythms import RhythmsByConfd
from protocol.http.connections import open_listener
from protocol.http.plainpages import PlainPages

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
    connections = PlainPages(Application(reports).page).connections()
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
