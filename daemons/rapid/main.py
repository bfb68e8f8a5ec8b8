"""rapid: HTTP for other machines and for people. The only module that knows all its parts.

Source: DESIGN sections 12 and 15; rapi.md 1.
"""

import argparse
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from common.access import Access
from common.errors import GantryError, InvalidRequest, Unavailable, explain
from common.featuresettings import RapidSettings
from common.installation import is_apart, take_up, use_plugins
from common.metrics import Metrics
from common.nodes.certificates import make_missing_web_certificate
from common.nodes.nodeplace import master_name, own_address, why_not_master
from common.paths import Paths
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.daemon import OwnOptions, run_daemon
from common.system.inthread import in_thread
from common.system.log import get_log
from common.system.program import DaemonOptions, fail, release
from daemons.rapid.access.authenticator import AccessRules, Authenticator, RequestCallers
from daemons.rapid.application import RapidApplication
from daemons.rapid.backend import Backend
from daemons.rapid.events.hub import hub_of
from daemons.rapid.health import HealthHandlers
from daemons.rapid.load import Load
from daemons.rapid.mastership import Mastership
from daemons.rapid.metrics.httpcounts import CountedApplication, HttpCounts, HttpNow
from daemons.rapid.metrics.scraping import MetricHandlers
from daemons.rapid.page.login import Login
from daemons.rapid.page.pagecalls import PageCalls
from daemons.rapid.page.pages import Pages
from daemons.rapid.page.recorder import Recorder
from daemons.rapid.page.sessions import Sessions
from daemons.rapid.page.visitors import Visitors
from daemons.rapid.rpc import RapidHandlers, rows
from daemons.rapid.transport.callers import Proxies, describer
from daemons.rapid.transport.certificate import FileIdentity
from daemons.rapid.transport.crossorigin import CrossOrigin
from daemons.rapid.transport.routing import Faces, Routes, no_request
from protocol.client import Client
from protocol.http.body import Bodies
from protocol.http.connections import Connections, open_listener
from protocol.luxi.daemon import ReadMetrics
from protocol.unixsocket import identity_of, listen, remove

# Options of the program: they count more than the settings file, as those of Ganeti's daemon do.
#
# Source: rapi.md 1.


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this program."""
    # obeyed before the others are looked at
    parser.add_argument("--check-enabled", action="store_true", help="only tell by the exit code whether it is enabled")
    parser.add_argument("--make-certificate", action="store_true", help="only make the certificate, if it is missing")
    parser.add_argument("-b", "--bind", metavar="ADDRESS", help="address to listen at, instead of the settings'")
    parser.add_argument("-p", "--port", type=int, metavar="PORT", help="port to listen at")
    parser.add_argument("-C", "--ssl-cert", metavar="FILE", help="file of the certificate")
    parser.add_argument("-K", "--ssl-key", metavar="FILE", help="file of its key")
    parser.add_argument("--no-ssl", action="store_true", help="do not encrypt connections")
    parser.add_argument("--require-authentication", action="store_true", help="refuse each request without a user")
    parser.add_argument("--max-clients", type=int, metavar="N", help="connections at once")


def with_options(settings: Settings, given: Mapping[str, object]) -> Settings:
    """The settings with what the command line says.

    Args: given: values by the names of options; None: not given.
    Raises: InvalidRequest: a value that the setting cannot have.
    """
    try:
        return attrs.evolve(settings, rapid=_changed(settings.rapid, given))
    except ValueError as error:
        raise InvalidRequest(f"an option cannot be used: {error}") from None


def _changed(rules: RapidSettings, given: Mapping[str, object]) -> RapidSettings:
    if isinstance(address := given.get("bind"), str):
        rules = attrs.evolve(rules, address=address)
    if isinstance(port := given.get("port"), int):
        rules = attrs.evolve(rules, port=port)
    if isinstance(certificate := given.get("ssl_cert"), str):
        rules = attrs.evolve(rules, certificate=certificate)
    if isinstance(key := given.get("ssl_key"), str):
        rules = attrs.evolve(rules, key=key)
    if given.get("no_ssl"):
        rules = attrs.evolve(rules, ssl=False)
    if given.get("require_authentication"):
        rules = attrs.evolve(rules, require_authentication=True)
    if isinstance(number := given.get("max_clients"), int):
        rules = attrs.evolve(rules, max_clients=number)
    return rules


# The daemon: what it is made of, and where it listens.


NAME: Final = "rapid"
# callers that the kernel keeps waiting; a Unix socket refuses further ones at once
_BACKLOG: Final = 4096
# connections that are told that there is no room
_SPARE: Final = 32
# descriptors of this daemon itself
_OWN_DESCRIPTORS: Final = 64
_log: Final = get_log(__name__)


def main() -> None:
    """The program gantry-rapid; with --check-enabled it only says, by its exit code, whether the settings enable it.

    With --make-certificate it only makes the missing certificate, as the daemons' user: a user of its own may not.
    """
    if "--check-enabled" in sys.argv[1:]:
        # systemd asks so, as it cannot read the settings
        sys.exit(0 if load_settings().rapid.enabled else 1)
    if "--make-certificate" in sys.argv[1:]:
        _only_make_certificate()
        return
    run_daemon(NAME, "The HTTP interface.", serve, _admit, OwnOptions(add_options, with_options))


def _only_make_certificate() -> None:
    try:
        settings = load_settings()
        take_up(settings)
        if settings.rapid.ssl:
            _make_certificate(settings)
    except (GantryError, OSError) as error:
        fail(NAME, error)


async def _admit(settings: Settings, _: DaemonOptions) -> None:
    """Raises: NoLongerMaster: this node is not the master, and the settings want only that one. OSError."""
    if not settings.rapid.only_on_master:
        return
    if settings.cluster.has_lease:
        if (why_not := await in_thread(why_not_master, settings)) is not None:
            raise NoLongerMaster(why_not)
    else:
        master = await in_thread(master_name, settings.paths)
        if master != settings.cluster.own_name:
            raise NoLongerMaster(f"this node is not the master; {master or 'none that it knows'} is")


async def serve(settings: Settings, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Run rapid; started when it listens.

    Raises: Unavailable: the port is taken, the socket cannot be made, or the certificate cannot be used.
        Denied: the folder of plug-ins is not safe.
    Cancellation: waiting requests and streams are ended, others are finished within a bounded time.
    """
    use_plugins(settings)
    paths, rules = settings.paths, _with_descriptors(settings.rapid)
    gate = Authenticator(paths, AccessRules(rules.anonymous_read, rules.ganeti_rights, rules.require_authentication))
    backend = Backend(paths, rules.luxid_patience_s, _most_calls(settings))
    hub = hub_of(paths)
    pages = Pages(Visitors(Sessions(gate.named, trio.current_time)))
    recorder = Recorder(lambda: backend.luxid.call_once(ReadMetrics()))
    page = PageCalls(pages, Login(pages, gate.check_password), recorder, hub)
    load, mastership, counts, connections = Load(), Mastership(settings), HttpCounts(), dict[str, Connections]()
    metrics = _metrics(settings, backend, load, counts, connections)
    handlers = RapidHandlers(HealthHandlers(mastership, backend, load, settings.cluster.has_lease), metrics, page, hub)
    application = RapidApplication(
        Routes(rows(handlers)),
        RequestCallers(gate, pages.visitors.caller),
        backend,
        mastership,
        Bodies(rules.max_body_bytes, rules.body_timeout_s),
        Faces(page.login.draw_error),
        load,
        Proxies.of(rules.trusted_proxies, rules.proxy_header),
        cross_origin=CrossOrigin(rules.allowed_origins),
    )
    identity = await in_thread(_identity, settings) if rules.ssl else None
    access = settings.access_table(os.getuid())
    # Starlette has less exact types for the same
    app = CountedApplication(application, counts)
    connect = partial(Connections, app, draw_failure=no_request, spare=_SPARE, server=_server(settings))
    over_network = connect(identity=identity, rules=rules)
    over_socket = connect(identity=None, rules=rules, describe=describer(access))
    connections.update(network=over_network, socket=over_socket)
    load.watch(over_network, over_socket)
    with (
        open_listener(rules.address, rules.port, where="'address' and 'port' in [rapid]") as listener,
        _unix_listener(paths, access, settings.access.socket_mode) as unix_listener,
    ):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gate.follow)
                nursery.start_soon(recorder.run)
                nursery.start_soon(pages.visitors.sessions.run, paths.wconfd_socket)
                nursery.start_soon(hub.run)
                nursery.start_soon(mastership.follow, load.end_waits)
                nursery.start_soon(over_network.serve, listener)
                nursery.start_soon(over_socket.serve, unix_listener)
                _log.info("http.listens", address=rules.address or "*", port=rules.port, socket=paths.rapid_socket)
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    load.stop()
        finally:
            backend.close()


def _metrics(
    settings: Settings, backend: Backend, load: Load, counts: HttpCounts, connections: Mapping[str, Connections]
) -> MetricHandlers:
    """Args: connections: by the way that they come; only read when numbers are asked for."""

    def now() -> tuple[Metrics, ...]:
        present = HttpNow(
            long_polls=load.waiting - counts.streams,
            connections={way: each.open for way, each in connections.items()},
            luxid_connections={"busy": backend.luxid.busy, "idle": backend.luxid.idle},
        )
        return counts, present

    paths = settings.paths
    return MetricHandlers(
        Client(paths.query_socket, daemon="luxid"),
        Client(paths.wconfd_socket, daemon="wconfd"),
        now,
        is_for_anybody=settings.rapid.anonymous_metrics,
        keeperd=Client(paths.keeperd_socket, daemon="keeperd") if settings.cluster.has_lease else None,
    )


def _most_calls(settings: Settings) -> int:
    """The number of calls to luxid at a time: half of its connections are left to others, and each user has a bound."""
    limits = settings.limits
    half = max(limits.max_connections // 2, 1)
    return min(half, limits.max_connections_per_user) if is_apart(settings) else half


def _server(settings: Settings) -> str:
    """The name in each reply; in Ganeti's place it is Ganeti's, as its tools expect."""
    return f"Ganeti {settings.ganeti.release}" if settings.ganeti.release else f"Gantry {release()}"


def _with_descriptors(rules: RapidSettings) -> RapidSettings:
    """The settings with no more connections on each of both listeners than there are descriptors for.

    Each may need one to luxid, too.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max((limit - _OWN_DESCRIPTORS) // 4 - _SPARE, 1)
    if limit == resource.RLIM_INFINITY or rules.max_clients <= most:
        return rules
    _log.warning("connections.limited", max_clients=rules.max_clients, possible=most, descriptors=limit)
    return attrs.evolve(rules, max_clients=most)


def _make_certificate(settings: Settings) -> None:
    """Make the certificate, if it is missing and the settings name no other. Raises: OSError."""
    names = (settings.cluster.own_name, own_address(settings))
    if not settings.rapid.certificate and make_missing_web_certificate(settings.paths.rapi_pem, *names):
        _log.info("certificate.made", path=settings.paths.rapi_pem)


def _identity(settings: Settings) -> FileIdentity:
    rules, paths = settings.rapid, settings.paths
    if not is_apart(settings):
        _make_certificate(settings)
    try:
        return FileIdentity(Path(rules.certificate or paths.rapi_pem), Path(rules.key) if rules.key else None)
    except (GantryError, OSError) as error:
        reason = explain(error)
        raise Unavailable(f"{reason}; see 'certificate' and 'key' in [rapid]") from error


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
