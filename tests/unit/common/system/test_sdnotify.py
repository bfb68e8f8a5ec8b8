"""The service manager gets its datagram; without one nothing happens."""

import os
import socket
from pathlib import Path

import pytest

from common.system import program
from common.system.program import notify
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


@pytest.mark.parametrize("is_systemd", [True, False])
def test_a_service_with_nothing_to_do_is_no_failure_for_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_systemd: bool
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setattr(program, "_SYSTEMD", str(tmp_path) if is_systemd else "/run/systemd/")

        program.notify_idle("node2 is the master")

        if is_systemd:
            assert receiver.recv(100) == b"READY=1\nSTATUS=node2 is the master"
        else:
            with pytest.raises(BlockingIOError):
                receiver.recv(100)
