"""The service manager gets its datagram; without one nothing happens."""

import os
import socket
from pathlib import Path

import pytest

from common.system.sdnotify import notify
from tests.support.wait import PATIENCE_S


@pytest.mark.parametrize("is_abstract", [False, True])
def test_the_state_is_sent_to_the_socket_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    address = f"@gantry-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(address.replace("@", "\0") if is_abstract else address)
        receiver.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", address)

        notify("READY=1\nSTATUS=3 jobs")

        assert receiver.recv(100) == b"READY=1\nSTATUS=3 jobs"


@pytest.mark.parametrize("address", [None, "", "relative", "/nowhere/at/all", "/" + "x" * 200])
def test_without_a_listener_nothing_happens(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    if address is None:
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    else:
        monkeypatch.setenv("NOTIFY_SOCKET", address)

    notify("READY=1")
