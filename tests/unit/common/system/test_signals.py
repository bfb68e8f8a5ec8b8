"""Signals as flags and as something to wait for. luxid.md 9.3."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from common.system.signals import HANDLED, ProcessSignals


@pytest.fixture
def signals() -> Iterator[ProcessSignals]:
    """Installed; the handlers of the test's process are put back."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    wakeup = signal.set_wakeup_fd(-1)
    signals = ProcessSignals()
    signals.install()
    yield signals
    signals.close()
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signal_before_the_wait_ends_it(signals: ProcessSignals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)

    assert signals.wait(None) == ()
    assert signals.cancel_asked


def test_signal_during_the_wait_ends_it(signals: ProcessSignals) -> None:
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGHUP))
    timer.start()

    assert signals.wait(None) == ()
    timer.join()
    assert not signals.cancel_asked


def test_readable_descriptor_ends_the_wait_and_is_named(signals: ProcessSignals) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")

    assert signals.wait(None, reader) == (reader,)
    os.close(writer)
    os.read(reader, 1)
    assert signals.wait(None, reader) == (reader,)
    os.close(reader)


def test_wait_is_over_in_time(signals: ProcessSignals) -> None:
    assert signals.wait(0.001) == ()
    assert signals.wait(-1) == ()


def test_priority_is_looked_at_once_and_outside_of_the_handler(signals: ProcessSignals) -> None:
    looked: list[int] = []
    signals.on_priority = lambda: looked.append(1)

    os.kill(os.getpid(), signal.SIGUSR1)
    assert looked == []

    signals.wait(None)
    signals.look()
    assert looked == [1]


def test_child_begins_without_what_came_for_its_parent(signals: ProcessSignals) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)
    assert signals.cancel_asked
    assert signals.hup_came

    signals.begin_anew()

    assert not signals.cancel_asked
    assert not signals.hup_came
    assert signals.wait(0) == ()


def test_wait_for_room_to_write(signals: ProcessSignals) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert signals.wait(1, one.fileno(), writing=one.fileno()) == (one.fileno(),)
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.send(bytes(65536))

        assert signals.wait(0, one.fileno(), writing=one.fileno()) == ()
