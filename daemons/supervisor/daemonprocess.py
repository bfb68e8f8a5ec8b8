"""One daemon as a child process: its start, its readiness, its death.

Readiness is the datagram that daemons under systemd also send (`READY=1` to NOTIFY_SOCKET). Each
daemon has a socket of its own, which tells which one is ready. Its pidfd reports its death.
"""

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

from common.daemons import daemon_named
from common.errors import Unavailable
from common.paths import Paths
from common.system.daemons.program import NOT_MASTER
from common.system.interpreter import python_command, python_environment
from common.system.log import open_log

STOP_TIMEOUT_S: Final = 20.0
_TAIL_LINES: Final = 12
_STATUS: Final = "STATUS="


class DaemonProcess:
    """A running child process; call `close` when it has ended."""

    def __init__(self, name: str, paths: Paths, root: Path | None) -> None:
        """Start it in a session of its own, so that a Ctrl-C reaches only the supervisor.

        Raises: OSError: its log or socket cannot be opened, or no process can be made or watched; none is left then.
        """
        self.name = name
        self._paths = paths
        address = paths.notify_socket(name)
        address.unlink(missing_ok=True)
        # readable when the daemon has sent a message, such as readiness
        self.notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.notifications.bind(str(address))
        self.notifications.setblocking(False)
        self._address = address
        # its own words on its state
        self._said = ""
        place = [] if root is None else ["--root", str(root)]
        with contextlib.ExitStack() as undoing:
            undoing.callback(self._let_go)
            with os.fdopen(open_log(paths.log_file(name)), "ab") as log:
                self._log_start = log.seek(0, os.SEEK_END)
                self._process = subprocess.Popen(
                    python_command(daemon_named(name).module, *place),
                    env={**python_environment(), "NOTIFY_SOCKET": str(address)},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            # one that nobody watches would keep every later one from starting
            undoing.callback(self._kill)
            # readable once the process has ended
            self.pidfd = os.pidfd_open(self._process.pid)
            undoing.pop_all()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check_ready(self) -> bool:
        """Return whether it has reported readiness; after that, do not call this again.

        Raises: Unavailable: it ended before, and not because this node is not the master; with the end of its log.
        """
        # in this order: a daemon that ends right after its report was ready
        has_ended = self.has_ended
        if self._said_ready():
            return True
        if has_ended and not self.says_not_master:
            raise Unavailable(self._why_not_started())
        return False

    def _why_not_started(self) -> str:
        if self._said and not daemon_named(self.name).is_needed:
            # in one line, as the others go on
            return f"{self.name} did not start: {self._said}"
        return f"{self.name} ended {self.how_ended()} before it was ready{self.log_tail()}"

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def _said_ready(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            while message := self.notifications.recv(4096):
                lines = message.decode(errors="replace").splitlines()
                if "READY=1" in lines:
                    return True
                self._said = next((line.removeprefix(_STATUS) for line in lines if line.startswith(_STATUS)), "")
        return False

    @property
    def says_not_master(self) -> bool:
        """Whether it has ended because this node is not the master."""
        return self._process.poll() == NOT_MASTER

    def how_ended(self) -> str:
        """`with exit code 1`, `by SIGKILL`; waits for the end."""
        code = self._process.wait()
        return f"by {_signal_name(-code)}" if code < 0 else f"with exit code {code}"

    def ask_to_end(self) -> None:
        self._process.terminate()

    def stop(self) -> bool:
        """Ask it to end, wait, and kill it if it does not; return whether it ended by itself. Closes it."""
        self.ask_to_end()
        try:
            self._process.wait(STOP_TIMEOUT_S)
            return True
        except subprocess.TimeoutExpired:
            self._kill()
            return False
        finally:
            self.close()

    def close(self) -> None:
        """Release the resources of an ended process."""
        os.close(self.pidfd)
        self._let_go()

    def _let_go(self) -> None:
        self.notifications.close()
        self._address.unlink(missing_ok=True)

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        """The end of its log since its start, for an error message."""
        path = self._paths.log_file(self.name)
        with contextlib.suppress(OSError), path.open("rb") as log:
            log.seek(self._log_start)
            lines = log.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
            if lines:
                return f"; its log '{path}' ends:\n" + "\n".join(f"  {line}" for line in lines)
        return f"; its log '{path}' says nothing"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # a real-time signal has no name of its own
        return f"signal {number}"
