"""rapid: HTTP for other machines and for people. The only module that knows all its parts.

Source: DESIGN sections 12 and 15; rapi.md 1.
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

import trio
from anycorn.typing import ASGIFramework

from common.access import Access
from common.paths import Paths
from common.settings import Settings
from common.system.daemon import run_daemon
from common.system.log import get_log
from daemons.rapid.access.authenticator import Authenticator
from daemons.rapid.access.verdict import Rules
from daemons.rapid.application import Application
from daemons.rapid.backend import Backend
from daemons.rapid.health import HealthHandlers
from daemons.rapid.metrics.httpcounts import CountedApplication, HttpCounts
from daemons.rapid.metrics.httpfamilies import HttpNow
from daemons.rapid.metrics.scraping import MetricHandlers
from daemons.rapid.rpc import Handlers, rows
from daemons.rapid.transport.callers import Callers, describer
from protocol.http.body import Bodies
from protocol.http.connections import Connections, open_listener
from protocol.serving.listening import identity_of, listen, remove

NAME: Final = "rapid"
_BACKLOG: Final = 256
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-rapid."""
    run_daemon(NAME, "The HTTP interface.", serve)


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run rapid; started when it listens.

    Raises: Unavailable: the port is taken, or the socket cannot be made.
    Cancellation: waiting requests and streams are ended, others are finished within a bounded time.
    """
    paths, rules = settings.paths, settings.rapid
    backend = Backend(paths)
    access = settings.access.access(os.getuid())
    gate = Authenticator(paths, Rules(rules.anonymous_read, rules.ganeti_rights, rules.require_authentication))
    counts, connections = HttpCounts(), dict[str, Connections]()
    app = make_application(settings, backend, gate, counts, connections)
    # Starlette has less exact types for the same
    asgi = cast(ASGIFramework, CountedApplication(app, counts))
    over_network = Connections(asgi, None, rules)
    over_socket = Connections(asgi, None, rules, describer(access))
    connections.update(network=over_network, socket=over_socket)
    with (
        open_listener(rules.address, rules.port, where="'address' and 'port' in [rapid]") as listener,
        _unix_listener(paths, access, settings.access.socket_mode) as unix_listener,
    ):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gate.follow)
                nursery.start_soon(over_network.serve, listener)
                nursery.start_soon(over_socket.serve, unix_listener)
                _log.info("http.listens", address=rules.address or "*", port=rules.port, socket=paths.rapid_socket)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    app.stop()
        finally:
            backend.close()


def make_application(
    settings: Settings,
    backend: Backend,
    gate: Authenticator,
    counts: HttpCounts,
    connections: Mapping[str, Connections],
) -> Application:
    """The application with all its parts.

    Args: connections: by the way that they come; only read when numbers are asked for.
    """
    rules = settings.rapid
    bodies = Bodies(rules.max_body_bytes, rules.body_timeout_s)
    # the application of the table that it is made of
    app: Application | None = None

    def load() -> tuple[int, int]:
        assert app is not None
        return app.requests, app.waiting

    def numbers() -> HttpNow:
        return HttpNow(
            requests=counts.requests(),
            times=counts.times(),
            streams=counts.streams,
            long_polls=load()[1] - counts.streams,
            connections={way: each.open for way, each in connections.items()},
            luxid_connections={"busy": backend.luxid.busy, "idle": backend.luxid.idle},
        )

    table = rows(
        Handlers(
            health=HealthHandlers(settings, backend, load),
            metrics=MetricHandlers(backend.luxid, backend.wconfd, numbers, is_for_anybody=rules.anonymous_metrics),
        )
    )
    app = Application(table, Callers(gate), backend, bodies)
    return app


@contextmanager
def _unix_listener(paths: Paths, access: Access, mode: int) -> Iterator[socket.socket]:
    path = paths.rapid_socket
    with listen(path, 0o666 if access.is_shared else mode, _BACKLOG) as listener:
        identity = identity_of(path)
        try:
            yield listener
        finally:
            remove(path, identity)


if __name__ == "__main__":
    main()
