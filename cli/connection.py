"""Connections to the daemons of the installation meant."""

import errno
from typing import Final, TypeVar

from cli.context import paths, up_command
from common.errors import Denied, RemoteError, Unavailable
from protocol.blocking import BlockingClient
from protocol.messages import Request

R = TypeVar("R")

_NOBODY_THERE: Final = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR)


def open_luxid() -> BlockingClient:
    """A client of luxid; connects at its first call, does not wait for a luxid that is not there.

    Raises: NotFound, InvalidRequest, OSError: there is no such installation.
    """
    return BlockingClient(paths().query_socket, connect_timeout_s=0, daemon="luxid")


def open_wconfd() -> BlockingClient:
    """The same of wconfd."""
    return BlockingClient(paths().wconfd_socket, connect_timeout_s=0, daemon="wconfd")


def ask_luxid(request: Request[R]) -> R:
    """Call luxid once. Raises: as `open_luxid` and `BlockingClient.call`."""
    with open_luxid() as client:
        return client.call(request)


def ask_wconfd(request: Request[R]) -> R:
    """Call wconfd once. Raises: as `ask_luxid`."""
    with open_wconfd() as client:
        return client.call(request)


def with_next_step(error: Unavailable) -> Unavailable:
    """The error with the command that starts the daemon, if nobody listens at its socket."""
    cause = error.__cause__
    if isinstance(error, RemoteError | Denied) or not isinstance(cause, OSError) or cause.errno not in _NOBODY_THERE:
        return error
    # the text of `dial` begins with the daemon's name
    name = error.message.partition(" does not answer")[0]
    return Unavailable(f"{name} is not running; start it with: {up_command()}")
