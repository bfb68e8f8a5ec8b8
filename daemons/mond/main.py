"""mond: tells what this node measures of itself. The only module that knows all its parts.

Source: DESIGN section 12; mond.md 1.
"""

from typing import Final, cast

import attrs
import trio
from anycorn.typing import ASGIFramework

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
from protocol.http.body import Bodies
from protocol.http.connections import Connections, open_listener

NAME: Final = "mond"
# seconds that the start waits for first reports
_PATIENCE_S: Final = 1.0
# bytes of a body, which no request needs, and seconds for it
_BODY_BYTES: Final = 2**16
_BODY_S: Final = 10.0
_log: Final = get_log(__name__)


@attrs.frozen
class _Rules:
    """Bounds of the connections: a few watchers, one request at a time each."""

    max_clients: int = 100
    handshake_timeout_s: float = 5.0
    idle_timeout_s: float = 10.0
    stop_timeout_s: float = 1.0


def main() -> None:
    """The program gantry-mond; with --check-enabled it only says, by its exit code, whether the settings enable it."""
    tell_if_enabled(Feature.MONITORING)
    run_daemon(NAME, "Tells what this node measures of itself.", serve, own=listen_options(NAME))


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run mond; started when it listens, and most collectors have a first report.

    Raises: Unavailable: the port is taken.
    """
    reports = Reports(await in_thread(make_collectors, settings))
    app = cast(ASGIFramework, Application(reports, Bodies(_BODY_BYTES, _BODY_S)))
    # idle connections make room for new ones
    connections = Connections(app, None, _Rules(), spare=8)
    address, port = settings.mond_address, settings.mond.port
    with open_listener(address, port, where="'address' and 'port' in [mond]") as listener:
        async with trio.open_nursery() as nursery:
            await reports.first_round(_PATIENCE_S)
            nursery.start_soon(reports.run)
            nursery.start_soon(RhythmsByConfd(settings, reports).run)
            nursery.start_soon(connections.serve, listener)
            _log.info("reports.served", address=address or "*", port=port, collectors=len(reports.active))
            task_status.started()


if __name__ == "__main__":
    main()
