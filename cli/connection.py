"""Connections to the daemons of the chosen installation."""

import errno
import os
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from cli.context import command_line, installation, paths, up_command
from cli.remoteoptions import is_remote, refuse_other_cluster, remote_place
from cli.screen import show_note
from common.errors import Denied, GantryError, InvalidRequest, RemoteError, Unavailable
from common.nodes.nodeplace import why_not_master
from common.settings import Settings
from common.system.running import find_supervisor
from protocol.blocking import BlockingClient
from protocol.messages import Request

# luxid as the verbs see it: here over its socket, or another machine's over HTTP.


R = TypeVar("R")


class Luxid(Protocol):
    """Carries out typed requests of LUXI, one after the other; `protocol.blocking.BlockingClient` is one."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        ...

    def call(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call`."""
        ...

    def call_retrying(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.call_retrying`."""
        ...


class FeedLuxid(Protocol):
    """luxid's feed on a connection of its own; `protocol.blocking.BlockingClient` is one."""

    def close(self) -> None:
        """Close the connection; a later subscription opens a new one."""
        ...

    def subscribe(self, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Raises: as `BlockingClient.subscribe`."""
        ...

    def event(self, timeout_s: float | None = None) -> tuple[str, list[object]] | None:
        """Raises: as `BlockingClient.event`."""
        ...


# Names of users.


def user_name() -> str:
    """The name of the user who runs this process; the uid, if the user has no name."""
    return login_of(os.getuid()) or str(os.getuid())


def login_of(uid: int) -> str | None:
    """The name of a user; None: the uid has no name."""
    # imported late: few commands need it
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def with_own_name(text: str) -> str:
    """The text of a refusal with the name of the user who was refused; a daemon has only the number."""
    # imported late: only a refusal needs it
    from common.words.outcome import refused_named

    return refused_named(text, lambda uid: login_of(uid) if uid == os.getuid() else None)


# seconds; a restart takes less than one, unless the queue is long or the machine busy
RESTART_PATIENCE_S: Final = 10.0
_NOBODY_THERE: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR)


def open_luxid(*, is_patient: bool = True) -> Luxid:
    """Return a connection to luxid; it connects at its first call.

    Args:
        is_patient: wait a few seconds for a luxid that is away, if a supervisor or systemd starts it again on this
            node. False for a command that only asks whether luxid is there.
    Raises: NotFound, InvalidRequest, OSError: the installation does not exist.
    """
    place = remote_place()
    if place is not None:
        # imported late: an HTTP client costs as much as all the rest of a command
        from cli.remote import RemoteLuxid

        return RemoteLuxid(place)
    refuse_other_cluster()
    return _client(installation(), "luxid", is_patient=is_patient)


def open_feed(*, is_patient: bool = True) -> FeedLuxid:
    """Return a connection for luxid's feed, as `open_luxid`."""
    place = remote_place()
    if place is not None:
        from cli.remote import RemoteFeed

        return RemoteFeed(place)
    refuse_other_cluster()
    return _client(installation(), "luxid", is_patient=is_patient)


def open_wconfd(*, is_patient: bool = True) -> BlockingClient:
    """Return a client of wconfd; otherwise as `open_luxid`. Raises: InvalidRequest: the cluster is not here."""
    if is_remote():
        raise InvalidRequest("this works only on a machine of the cluster, not with --remote")
    refuse_other_cluster()
    return _client(installation(), "wconfd", is_patient=is_patient)


def _client(settings: Settings, daemon: str, *, is_patient: bool) -> BlockingClient:
    return BlockingClient(
        settings.paths.socket(daemon),
        connect_timeout_s=RESTART_PATIENCE_S if is_patient else 0,
        is_coming=partial(_is_coming_back, settings, daemon),
        daemon=daemon,
        noted=show_note,
    )


def _is_coming_back(settings: Settings, daemon: str) -> bool:
    """Whether a daemon of the master is started again here when it ends; False where it cannot be known."""
    try:
        return why_not_master(settings) is None and _is_kept(settings, daemon)
    except (GantryError, OSError):
        return False


def _is_kept(settings: Settings, daemon: str) -> bool:
    """Whether a supervisor or systemd restarts the daemon; False where this user may not know."""
    try:
        if find_supervisor(settings.paths) is not None:
            return True
    except (GantryError, OSError):
        return False
    # imported late: only a daemon that is away needs it
    from common.system.unit import is_kept_by_systemd

    return is_kept_by_systemd(daemon, settings.root)


def ask_luxid(request: Request[R], *, timeout_s: float | None = None) -> R:
    """Call luxid once. Raises: as `open_luxid` and `BlockingClient.call`."""
    with open_luxid() as client:
        return client.call(request, timeout_s=timeout_s)


def ask_wconfd(request: Request[R], *, timeout_s: float | None = None) -> R:
    """Call wconfd once. Raises: as `ask_luxid`."""
    with open_wconfd() as client:
        return client.call(request, timeout_s=timeout_s)


def _with_remote_step(error: Unavailable) -> Unavailable:
    from cli.remote import with_fingerprint

    place = remote_place()
    assert place is not None
    return with_fingerprint(error, place)


def submitter_name() -> str:
    """The name that jobs of this user have in the field `user`.

    Raises: InvalidRequest, Unavailable, RemoteError: the server of --remote cannot be asked for it.
    """
    place = remote_place()
    if place is None:
        return user_name()
    from protocol.rapid.clients.blocking import RapidClient

    with RapidClient(place) as client:
        return client.me().owner


def with_next_step(error: Unavailable) -> Unavailable:
    """Add to the error what to do about it, if no process listens at the daemon's socket.

    Raises: InvalidRequest: the path of the socket is too long to listen at.
    """
    if is_remote():
        return _with_remote_step(error)
    cause = error.__cause__
    if isinstance(error, RemoteError | Denied) or not isinstance(cause, OSError) or cause.errno not in _NOBODY_THERE:
        return error
    # the text of `dial` begins with the daemon's name
    name = error.message.partition(" does not answer")[0]
    if (why := why_not_master(installation())) is not None:
        return Unavailable(f"{why}; run the command there")
    if _is_kept(installation(), name):
        return Unavailable(
            f"{name} is being restarted and is not yet back; try again, or see why with: "
            f"{command_line('gantry', 'status')}; tail {paths().log_file(name)}"
        )
    # a socket path that is too long can never be listened at
    paths().check_socket_paths()
    return Unavailable(f"{name} is not running; start it with: {up_command()}")


# Logins of the cluster's users, as far as this machine can know them.


def known_login(uid: int) -> str | None:
    """The login of a user of the cluster; None: it is not known here. A number may be another user's elsewhere."""
    return None if is_remote() else login_of(uid)
