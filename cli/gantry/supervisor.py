"""The process that keeps an installation's daemons running; `gantry up` is or starts one.

It starts wconfd, the fork server and luxid, each when the one before is ready. One that ends
by itself is started again: at once, and if it soon ends again, after pauses that grow. Nothing
here waits for one daemon alone, so the end of another is seen meanwhile. SIGTERM, SIGINT and a terminal that hangs
up stop all of them, luxid first; job processes are children of nobody here and go on.

Run as a program it is the detached supervisor: `python -P -m cli.gantry.supervisor ROOT-or-'-' FD`; to the
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

from cli.gantry.daemonprocess import DaemonProcess, StopAsked
from cli.run import explain
from common.daemons import start_order
from common.errors import GantryError, Unavailable
from common.paths import Paths
from common.settings import load_settings
from common.system.log import get_log, set_up_logging
from common.system.pidfile import PidFile

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
# a daemon that lived for so long is well: its next restart is at once again
WELL_AFTER_S: Final = 60.0

_log = get_log(__name__)


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
        # all that have been started and not been seen to end
        self._running: dict[str, DaemonProcess] = {}
        # those of them that have not yet said that they are ready
        self._starting: set[str] = set()
        self._started_at: dict[str, float] = {}
        self._pauses: dict[str, float] = {}
        # when a daemon that has ended is tried again, on the monotonic clock
        self._restarts: dict[str, float] = {}
        self._signals = _SignalPipe()

    def __enter__(self) -> Self:
        """Raises: Conflict: another supervisor runs; the message names its pid."""
        self._pid_file = PidFile.take(self._paths.supervisor_pid_file)
        self._signals.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._signals.close()
        self._pid_file.release()

    def start_all(self) -> None:
        """Start the daemons in order, each when the one before is ready.

        Raises: Unavailable: one does not get ready, and why. StopAsked.
        """
        for daemon in start_order():
            self._launch(daemon.name).wait_ready(self._signals.reader)
            self._note_ready(daemon.name)

    def keep_running(self) -> None:
        """Restart what ends, until a signal asks us to stop."""
        while not self._wait_for_event():
            for name, process in list(self._running.items()):
                if name in self._starting:
                    self._look_at_start(name, process)
                elif process.has_ended:
                    self._note_end(name)
            for name in [name for name, due_at in self._restarts.items() if due_at <= time.monotonic()]:
                self._try_again(name)

    def stop(self) -> None:
        """Stop all daemons, each before those that it needs."""
        for daemon in reversed(start_order()):
            process = self._running.pop(daemon.name, None)
            if process is not None and not process.stop():
                self._tell(f"{daemon.name} did not end in time and was killed")

    def _launch(self, name: str) -> DaemonProcess:
        process = self._running[name] = DaemonProcess(name, self._paths, self._root)
        self._starting.add(name)
        return process

    def _look_at_start(self, name: str, process: DaemonProcess) -> None:
        try:
            if process.check_ready():
                self._note_ready(name)
        except Unavailable as error:
            self._starting.discard(name)
            self._running.pop(name).stop()
            self._note_failure(name, error)

    def _note_ready(self, name: str) -> None:
        self._starting.discard(name)
        self._started_at[name] = time.monotonic()
        pid = self._running[name].pid
        _log.info("supervisor.started", daemon=name, pid=pid)
        self._tell(f"{name:<10}  ready  pid {pid}")

    def _wait_for_event(self) -> bool:
        """Wait until a daemon is ready or ends, something is due or a signal comes; whether it is a signal."""
        dues = [*self._restarts.values(), *(self._running[name].ready_by for name in self._starting)]
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.reader, selectors.EVENT_READ)
            for name, process in self._running.items():
                selector.register(process.pidfd, selectors.EVENT_READ)
                if name in self._starting:
                    selector.register(process.notifications, selectors.EVENT_READ)
            selector.select(max(min(dues) - time.monotonic(), 0) if dues else None)
        return self._signals.has_come()

    def _note_end(self, name: str) -> None:
        process = self._running.pop(name)
        how = process.how_ended()
        process.close()
        if time.monotonic() - self._started_at[name] > WELL_AFTER_S:
            self._pauses.pop(name, None)
        self._schedule(name, f"ended {how}", self._pauses.get(name, 0.0))

    def _try_again(self, name: str) -> None:
        del self._restarts[name]
        try:
            self._launch(name)
        except OSError as error:
            self._note_failure(name, error)

    def _note_failure(self, name: str, error: Exception) -> None:
        self._tell(str(error))
        self._schedule(name, "did not start", self._pauses.get(name, FIRST_PAUSE_S))

    def _schedule(self, name: str, why: str, pause_s: float) -> None:
        """Start it again after a pause; the next one is longer."""
        self._pauses[name] = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
        self._restarts[name] = time.monotonic() + pause_s
        _log.warning("supervisor.ended", daemon=name, why=why, restart_s=pause_s)
        self._tell(f"{name:<10}  {why}; starting it again{f' in {pause_s:g} s' if pause_s else ''}")


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
        set_up_logging("supervisor", path=paths.supervisor_log)
        with Supervisor(paths, root, lambda text: _report(report, text)) as supervisor:
            supervisor.start_all()
            report.close()
            supervisor.keep_running()
    except StopAsked:
        return
    except (GantryError, OSError) as error:
        _report(report, f"error: {explain(error)}")
        sys.exit(1)


def _report(report: TextIO, text: str) -> None:
    if report.closed:
        _log.info("supervisor.said", text=text)
    else:
        report.write(text + "\n")


if __name__ == "__main__":
    main()
