"""The keeperd of this node, as operators' commands ask it; and what to do where there is none.

Source: DESIGN section 14.
"""

from typing import Final, TypeVar

from cli.context import command_line, installation, up_command
from cli.gantry.cluster.clustertext import silence_words
from cli.screen import show_note
from common.errors import Conflict, GantryError, RemoteError, Unavailable
from common.nodes.ssconffiles import candidate_names
from common.settings import Settings
from common.system.daemons.running import find_daemon
from protocol.blocking import BlockingClient
from protocol.keeperd.calls import ShowCluster
from protocol.messages import Request

R = TypeVar("R")

# seconds; keeperd replies from memory, but for what it asks etcd's members
_REPLY_S: Final = 30.0
_SETTINGS: Final = 'replication = "etcd" in [cluster] of gantry.toml'


def open_keeperd() -> BlockingClient:
    """Return a client of this node's keeperd; it connects at its first call.

    Raises: Conflict: the cluster has no lease; the message says what to use instead. Else as `installation`.
    """
    settings = installation()
    check_has_lease(settings)
    return BlockingClient(settings.paths.keeperd_socket, connect_timeout_s=0, daemon="keeperd", noted=show_note)


def check_has_lease(settings: Settings) -> None:
    """Raises: Conflict: the cluster has none."""
    if settings.cluster.has_lease:
        return
    if settings.cluster.has_nodes:
        raise Conflict(
            "this cluster has no lease: its master is moved by hand, by 'gnt-cluster master-failover' on the node that "
            f"is to be it; 'gnt-cluster getmaster' tells the master; for a lease see deploy/etcd, and {_SETTINGS}"
        )
    raise Conflict(
        "this cluster has one machine, and nobody could follow it; see 'gantry status' for its daemons; "
        f"for several machines and a lease see deploy/etcd, and {_SETTINGS}"
    )


def ask(request: Request[R], client: BlockingClient | None = None, *, timeout_s: float = _REPLY_S) -> R:
    """Call this node's keeperd. Args: client: None: one for this call.

    Raises: as `open_keeperd` and `BlockingClient.call`; the message says what to do where keeperd is not reached.
    """
    try:
        if client is not None:
            return client.call(request, timeout_s=timeout_s)
        with open_keeperd() as own:
            return own.call(request, timeout_s=timeout_s)
    except RemoteError:
        raise
    except Unavailable as error:
        raise Unavailable(not_reached_words(error)) from error


def not_reached_words(error: Unavailable) -> str:
    """What to do where this node's keeperd was not reached."""
    settings = installation()
    candidates = candidate_names(settings.paths)
    if candidates and settings.cluster.own_name not in candidates:
        return f"this node is no master candidate, and has no keeperd; run the command on {', '.join(candidates)}"
    if not _runs(settings):
        return f"keeperd is not running on this node; start it with: {up_command()}"
    log = settings.paths.log_file("keeperd")
    return f"{error.message}; see: {command_line('gantry', 'status')}; tail {log}"


def with_silence(error: RemoteError) -> str:
    """The words of an error, and a word on etcd if that is silent, which is then the cause."""
    try:
        silence = silence_words(ask(ShowCluster()))
    except (GantryError, OSError):
        silence = None
    return error.message if silence is None else f"{error.message}; {silence}"


def _runs(settings: Settings) -> bool:
    try:
        return find_daemon(settings.paths, "keeperd") is not None
    except PermissionError:
        # its pid file is not for this user
        return True
