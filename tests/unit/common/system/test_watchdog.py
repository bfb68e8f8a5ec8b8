"""Signs of life are given by the loop, in time, and only to a systemd that waits for them from this process."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from common.system.daemon import give_signs
from common.system.program import sign_interval_s


@pytest.fixture
def signs(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What systemd receives; it waits a minute for a sign."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        address = str(Path(folder, "notify"))
        receiver.bind(address)
        receiver.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        monkeypatch.setenv("WATCHDOG_USEC", "60000000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield receiver


def test_nobody_waits_for_signs_without_a_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)

    assert sign_interval_s() is None


@pytest.mark.parametrize("value", ["", "0", "-1", "soon"])
def test_a_watchdog_without_a_time_waits_for_nothing(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", value)

    assert sign_interval_s() is None


def test_signs_of_another_process_are_not_given(signs: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid() + 1))

    assert sign_interval_s() is None


def test_a_lost_sign_does_not_end_the_daemon(signs: socket.socket) -> None:
    interval_s = sign_interval_s()

    assert interval_s is not None
    assert interval_s * 2 < 60


@pytest.mark.trio
async def test_a_loop_that_goes_on_gives_signs(signs: socket.socket, autojump_clock: trio.testing.MockClock) -> None:
    with trio.move_on_after(61):
        await give_signs()

    assert [signs.recv(100) for _ in range(4)] == [b"WATCHDOG=1"] * 4
    with pytest.raises(BlockingIOError):
        signs.recv(100)
