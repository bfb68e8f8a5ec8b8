"""The process that renews the lease: it moves the deadline on, and nothing else does (lease.md 7 and 8)."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.lease.deadline import Deadline, DeadlineWriter, boottime
from common.system.processes import python_command, python_environment
from daemons.keeperd.renewing.orders import (
    MAX_MESSAGE,
    Duty,
    Gone,
    Late,
    LogMessage,
    Order,
    Renewed,
    RenewerReady,
    Report,
    ResolvedEndpoint,
    Setup,
    WatchdogState,
    decode,
    encode,
)
from tests.support.etcds.etcd import Etcd
from tests.support.etcds.playedkeeper import Gateway
from tests.support.wait import PATIENCE_S, wait_until

# of leases in these tests
TTL_S = 60


class Renewing:
    """The real process, with this test as its keeperd."""

    def __init__(self, folder: Path, port: int, **account: str) -> None:
        path = folder / "deadline"
        DeadlineWriter(path).close()
        self.deadline = Deadline(path)
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.line.settimeout(PATIENCE_S)
        command = python_command("daemons.keeperd.renewing.program", str(theirs.fileno()))
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env=python_environment())
        theirs.close()
        place = ResolvedEndpoint(socket.AF_INET, ("127.0.0.1", port), "127.0.0.1", port, is_tls=False)
        self.send(Setup(str(path), (place,), **account))

    def send(self, order: Order) -> None:
        self.line.send(encode(order))

    def next(self, *kinds: type) -> Report | Order:
        """The next report of one of these kinds."""
        while True:
            report = decode(self.line.recv(MAX_MESSAGE))
            if isinstance(report, kinds):
                return report

    def close(self) -> None:
        self.line.close()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def renewing(module_etcd: Etcd, tmp_path: Path) -> Iterator[Renewing]:
    process = Renewing(tmp_path, module_etcd.members[0].port)
    assert process.next(RenewerReady) == RenewerReady()
    yield process
    process.close()


@pytest.fixture
def lease(module_etcd: Etcd) -> int:
    return Gateway(module_etcd.members[0].url).grant(TTL_S)


def duty(lease: int, until: float, **changes: object) -> Duty:
    base = Duty(epoch=3, lease=lease, until=until, keepalive_s=0.05, request_s=5.0, deadline_s=54.0, patience_s=600.0)
    return attrs.evolve(base, **changes)  # type: ignore[arg-type]


def test_a_renewal_moves_the_deadline_on_from_when_it_was_sent(renewing: Renewing, lease: int) -> None:
    before = boottime()
    renewing.send(duty(lease, before + 20))

    renewed = renewing.next(Renewed)

    assert isinstance(renewed, Renewed)
    assert before <= renewed.sent_at <= boottime()
    assert renewing.deadline.until_s >= renewed.sent_at + 54 - 0.001


def test_a_lease_that_is_gone_is_told_and_moves_nothing(renewing: Renewing) -> None:
    until = boottime() + 20
    renewing.send(duty(4711, until))

    assert isinstance(renewing.next(Gone, Renewed), Gone)
    assert renewing.deadline.until_s == pytest.approx(until, abs=0.001)


def test_nothing_is_renewed_after_the_deadline_although_etcd_would(renewing: Renewing, lease: int) -> None:
    renewing.send(duty(lease, boottime() - 1))

    assert renewing.next(Renewed, Late) == Late(3)
    assert renewing.deadline.has_passed


def test_a_lease_is_renewed_when_its_deadline_is_told_a_moment_later(renewing: Renewing, lease: int) -> None:
    renewing.send(duty(lease, 0.0))
    assert renewing.next(Renewed, Late) == Late(3)

    renewing.send(duty(lease, boottime() + 20))

    assert isinstance(renewing.next(Renewed, Late), Renewed)


def test_the_end_of_a_mastership_is_the_end_of_its_deadline(renewing: Renewing, lease: int) -> None:
    renewing.send(duty(lease, boottime() + 20))
    renewing.next(Renewed)

    renewing.send(duty(lease, 0.0))

    assert renewing.next(Late) == Late(3)
    assert renewing.deadline.until_s == 0


def test_nothing_is_renewed_for_a_main_process_that_hangs(renewing: Renewing, lease: int) -> None:
    renewing.send(duty(lease, boottime() + 2, patience_s=0.0, sent_at=boottime()))

    # it says so, and lets the deadline pass
    assert isinstance(renewing.next(Renewed, Late), Late)


def test_it_ends_with_keeperd(renewing: Renewing) -> None:
    renewing.line.close()

    assert renewing.process.wait(PATIENCE_S) == 0


def test_the_watchdog_is_fed_only_while_it_would_bite_before_the_deadline(renewing: Renewing, tmp_path: Path) -> None:
    dog = tmp_path / "watchdog"
    dog.touch()
    renewing.send(duty(0, boottime() + 3600, watchdog=str(dog), watchdog_s=5))
    assert renewing.next(WatchdogState) == WatchdogState("", is_open=True)
    wait_until(lambda: dog.read_bytes() == b"\0", what="it is fed")

    # too near to be fed
    renewing.send(duty(0, 0.0, watchdog=str(dog), watchdog_s=5))
    renewing.send(duty(0, 0.0))
    assert renewing.next(WatchdogState) == WatchdogState("", is_open=False)
    fed = dog.read_bytes()
    assert fed.endswith(b"V")
    assert fed.strip(b"V").strip(b"\0") == b""


def test_a_watchdog_is_left_to_bite_when_the_process_dies(renewing: Renewing, tmp_path: Path) -> None:
    dog = tmp_path / "watchdog"
    dog.touch()
    renewing.send(duty(0, boottime() + 3600, watchdog=str(dog), watchdog_s=5))
    renewing.next(WatchdogState)

    renewing.line.close()
    renewing.process.wait(PATIENCE_S)

    assert b"V" not in dog.read_bytes()


def test_a_watchdog_that_cannot_be_opened_is_told(renewing: Renewing, tmp_path: Path) -> None:
    renewing.send(duty(0, boottime() + 3600, watchdog=str(tmp_path / "none"), watchdog_s=5))

    told = renewing.next(WatchdogState)

    assert isinstance(told, WatchdogState)
    assert told.failure == f"the watchdog '{tmp_path}/none' cannot be opened: no such file or directory"
    assert not os.path.exists(tmp_path / "none")


def test_a_password_that_cannot_be_read_is_told_and_the_process_ends(tmp_path: Path) -> None:
    process = Renewing(tmp_path, 1, user="root", password_file=str(tmp_path / "none"))

    told = process.next(RenewerReady, LogMessage)
    process.close()

    assert isinstance(told, LogMessage)
    assert told.text.startswith(f"the password for etcd cannot be read from '{tmp_path}/none': no such file")
    assert process.process.returncode == 0
