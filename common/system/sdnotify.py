"""Telling systemd how we are: one datagram, or nothing at all without systemd."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1`, `STATUS=...` (several separated by newlines) to the service manager.

    Without one, NOTIFY_SOCKET being unset, nothing happens. Never raises: no daemon fails because
    nobody listens.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # an abstract name; the kernel marks it by a leading NUL
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
    ):
        sender.sendto(state.encode("utf-8", "replace"), address)
