"""Report the state of the daemon to systemd: one datagram, or nothing without systemd."""

import contextlib
import os
import socket


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
