"""Wait until a port of this machine listens: no event tells of that."""

import socket
import time

from protocol.dial import pauses


def listens(host: str, port: int, within_s: float) -> bool:
    """Whether a daemon listens there within this time."""
    deadline = time.monotonic() + within_s
    for pause_s in pauses():
        try:
            socket.create_connection((host, port), within_s).close()
            return True
        except OSError:
            if time.monotonic() + pause_s >= deadline:
                return False
        time.sleep(pause_s)
    raise AssertionError("pauses() has no end")
