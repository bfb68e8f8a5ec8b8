"""The processes of the supervisor: none is left behind, whatever fails (DESIGN section 2; `daemons.supervisor`)."""

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from common.daemons import daemon_named
from common.paths import Paths
from daemons.supervisor import supervising
from daemons.supervisor.supervising import DaemonProcess, DaemonSupervisor

NAMES = ("noded", "wconfd", "mond")


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Of an installation whose daemons only wait."""
    monkeypatch.setattr(
        supervising, "python_command", lambda *_: [sys.executable, "-c", "import signal; signal.pause()"]
    )
    paths = Paths.under_root(tmp_path)
    paths.make_folders()
    return paths


def test_a_daemon_that_cannot_be_watched_does_not_run_on(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def refuse(pid: int) -> int:
        started.append(pid)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)

    with pytest.raises(OSError, match="Too many open files"):
        DaemonProcess("mond", paths, None)

    (pid,) = started
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not paths.notify_socket("mond").exists()


def test_the_end_by_a_real_time_signal_is_told_by_its_number(paths: Paths) -> None:
    process = DaemonProcess("mond", paths, None)

    os.kill(process.pid, signal.SIGRTMIN + 3)

    assert process.how_ended() == f"by signal {signal.SIGRTMIN + 3}"
    process.close()


def test_all_daemons_are_stopped_though_nobody_reads_that_one_was_killed(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    class Slow:
        """Ready at once, and killed at the end."""

        pid, has_ended, says_not_master = 1, False, False

        def __init__(self, name: str, *_: Any) -> None:
            self.name = name
            self.pidfd, self.notifications = os.eventfd(1), os.eventfd(1)

        def check_ready(self) -> bool:
            return True

        def stop(self) -> bool:
            stopped.append(self.name)
            os.close(self.pidfd)
            os.close(self.notifications)
            return False

    def tell(text: str) -> None:
        if "killed" in text:
            raise BrokenPipeError

    monkeypatch.setattr(supervising, "DaemonProcess", Slow)

    with (
        pytest.raises(BrokenPipeError),
        DaemonSupervisor(lambda: [daemon_named(name) for name in NAMES], paths, None, tell) as supervisor,
    ):
        supervisor.start_all()

    assert stopped == list(reversed(NAMES))
