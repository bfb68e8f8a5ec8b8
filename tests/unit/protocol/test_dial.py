"""One attempt to connect to a daemon, and how it fails."""

import errno
import os
import socket
from pathlib import Path

import pytest

from common.errors import Unavailable
from protocol.unixsocket import dial


def test_a_process_without_descriptors_may_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socket", refuse)

    with pytest.raises(Unavailable, match=r"cannot be called at .*: too many open files; try again"):
        dial(tmp_path / "wconfd", "wconfd")
