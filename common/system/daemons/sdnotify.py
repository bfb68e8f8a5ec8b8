"""Report the state of the daemon to systemd: one datagram, or nothing without systemd."""

import contextlib
import os
import socket
from typing import Final

# beginning of the socket's name where systemd listens, and not our supervisor
_SYSTEMD: Final = "/run/systemd/"


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1`, `STATUS=...` (several separated by newlines) to the service manager.

    Without one (NOTIFY_SOCKET is unset) nothing happens. Never raises: a daemon must not fail because
    the service manager does not listen.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # an abstract name; a leading NUL marks it for the kernel
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
    ):
        sender.sendto(state.encode("utf-8", "replace"), address)


def notify_idle(why: str) -> None:
    """Tell systemd that this service ends since there is nothing for it to do here; to be called before it was ready.

    systemd takes a service that ends before it is ready for failed, whatever its exit code. Our supervisor needs no
    more than the code.
    """
    if os.environ.get("NOTIFY_SOCKET", "").startswith(_SYSTEMD):
        notify(f"READY=1\nSTATUS={why}")
