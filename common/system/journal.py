"""The journal of systemd: whether a stream of this process leads there, and records with fields of their own.

Source: systemd.io, "Native Journal Protocol"; systemd.exec(5), "$JOURNAL_STREAM".
"""

import contextlib
import os
import socket
import struct
from collections.abc import Mapping
from typing import Final

SOCKET: Final = "/run/systemd/journal/socket"
# prefix that gives a line on a stream of the journal the priority "error"
ERROR: Final = "<3>"
_LENGTH: Final = struct.Struct("<Q")


def is_journal(fd: int = 2) -> bool:
    """Whether what is written to this descriptor gets into the journal; by default, standard error."""
    with contextlib.suppress(OSError):
        status = os.fstat(fd)
        return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
    return False


class Journal:
    """A socket to the journal."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address or SOCKET
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, fields: Mapping[str, str]) -> bool:
        """Send one record; false: the journal is full, away, or refuses it. Never waits.

        Args: fields: names of capital letters, digits and underlines; `MESSAGE` is the text.
        """
        try:
            self._socket.sendto(record_of(fields), self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def record_of(fields: Mapping[str, str]) -> bytes:
    """The datagram of a record."""
    return b"".join(_field(name.encode(), value.encode("utf-8", "backslashreplace")) for name, value in fields.items())


def _field(name: bytes, value: bytes) -> bytes:
    if b"\n" not in value:
        return name + b"=" + value + b"\n"
    return name + b"\n" + _LENGTH.pack(len(value)) + value + b"\n"
