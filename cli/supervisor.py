"""The process that keeps an installation's daemons running; `gantry up` is or starts one.

It starts wconfd, the fork server and luxid, each when the one before is ready. One that ends
by itself is started again, after pauses that grow. SIGTERM, SIGINT and a terminal that hangs
up stop all of them, luxid first; job processes are children of nobody here and go on.

Run as a program it is the detached supervisor: `python -P -m cli.supervisor ROOT-or-'-' FD`; to the
descriptor FD it writes what the foreground would show, and closes it when all are ready.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TextIO

from cli.daemonprocess import DaemonProcess, StopAsked
from cli.pids import DAEMONS, supervisor_pid_file
from common.errors import GantryError, Unavailable
from common.log import get_log, set_up_logging
from common.paths import Paths
from common.pidfile import PidFile
from common.settings import load_settings

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
# a daemon that lived for so long is well: the next pause is the first again
WELL_AFTER_S: Final = 60.0

_log = get_log(__name__)


def log_file(paths: Paths) -> Path:
    """Where the supervisor logs, in the foreground too."""
    return paths.log / "gantry-supervisor.log"


class Supervisor:
    """Starts the daemons and keeps them running; a context manager that leaves none behind.

    Args:
        root: passed on to the daemons; None for the installation of the system.
        tell: shows a line to the user.
    """

    def __init__(self, paths: Paths, root: Path | None, tell: Callable[[str], None]) -> None:
        self._paths = paths
        self._root = root
        self._tell = tell
        self._running: dict[str, DaemonProcess] = {}
        self._started_at: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        # when a daemon that has ended is tried again, on the monotonic clock
        self._restarts: dict[str, float] = {}
        self._signals = _SignalPipe()

    def __enter__(self) -> Self:
        """Raises: Conflict: another supervisor runs; the message names its pid."""
        self._pid_file = PidFile.take(supervisor_pid_file(self._paths))
        self._signals.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._signals.close()
        self._pid_file.release()

    def start_all(self) -> None:
        """Start the daemons in order.

        Raises: Unavailable: one does not get ready, and why. StopAsked.
        """
        for name in DAEMONS:
            self._start(name)

    def keep_running(self) -> None:
        """Restart what ends, until a signal asks us to stop."""
        try:
            while not self._wait_for_event():
                for name in [name for name, process in self._running.items() if _has_ended(process)]:
                    self._note_end(name)
                for name in [name for name, due_at in self._restarts.items() if due_at <= time.monotonic()]:
                    self._try_again(name)
        except StopAsked:
            return

    def stop(self) -> None:
        """Stop all daemons, the last one started first."""
        # luxid before the lock daemon it asks, the fork server at the end: jobs end through it
        for name in ("luxid", "wconfd", "forkserver"):
            process = self._running.pop(name, None)
            if process is not None and not process.stop():
                self._tell(f"{name} did not end in time and was killed")

    def _start(self, name: str) -> None:
        process = DaemonProcess(name, self._paths, self._root)
        self._running[name] = process
        process.wait_ready(self._signals.reader)
        self._started_at[name] = time.monotonic()
        _log.info("supervisor.started", daemon=name, pid=process.pid)
        self._tell(f"{name:<10}  ready  pid {process.pid}")

    def _wait_for_event(self) -> bool:
        """Wait until a daemon ends, a restart is due or a signal comes; whether it is a signal."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.reader, selectors.EVENT_READ)
            for process in self._running.values():
                selector.register(process.pidfd, selectors.EVENT_READ)
            due = min(self._restarts.values(), default=None)
            selector.select(None if due is None else max(due - time.monotonic(), 0))
        return self._signals.has_come()

    def _note_end(self, name: str) -> None:
        process = self._running.pop(name)
        how = process.how_ended()
        process.close()
        if time.monotonic() - self._started_at.get(name, 0) > WELL_AFTER_S:
            self._pauses.pop(name, None)
        self._schedule(name, f"ended {how}")

    def _try_again(self, name: str) -> None:
        del self._restarts[name]
        try:
            self._start(name)
        except (Unavailable, OSError) as error:
            self._tell(str(error))
            if (process := self._running.pop(name, None)) is not None:
                process.stop()
            self._schedule(name, "did not start")

    def _schedule(self, name: str, why: str) -> None:
        """Start it again after a pause, which doubles each time."""
        pause = self._pauses.get(name, FIRST_PAUSE_S)
        self._pauses[name] = min(2 * pause, LONGEST_PAUSE_S)
        self._restarts[name] = time.monotonic() + pause
        _log.warning("supervisor.ended", daemon=name, why=why, restart_s=pause)
        self._tell(f"{name:<10}  {why}; starting it again in {pause:g} s")


def _has_ended(process: DaemonProcess) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(process.pidfd, selectors.EVENT_READ)
        return bool(selector.select(0))


class _SignalPipe:
    """SIGTERM, SIGINT and the hang-up of a terminal as something to select on."""

    def open(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        # the handlers do nothing: that a signal came is written to the pipe
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def has_come(self) -> bool:
        try:
            return bool(self.reader.recv(16, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.reader.close()
        self._writer.close()


def main() -> None:
    """The detached supervisor."""
    place, fd = sys.argv[1], int(sys.argv[2])
    root = None if place == "-" else Path(place)
    report = os.fdopen(fd, "w", buffering=1)
    try:
        paths = load_settings(root).paths
        set_up_logging("supervisor", path=log_file(paths))
        with Supervisor(paths, root, lambda text: _report(report, text)) as supervisor:
            supervisor.start_all()
            report.close()
            supervisor.keep_running()
    except StopAsked:
        return
    except (GantryError, OSError) as error:
        _report(report, f"error: {error}")
        sys.exit(1)


def _report(report: TextIO, text: str) -> None:
    if report.closed:
        _log.info("supervisor.said", text=text)
    else:
        report.write(text + "\n")


if __name__ == "__main__":
    main()
