"""The signals of a process, as flags and as an event that can be waited for.

Theory. A handler may run between any two steps of a unit, so it only sets a flag. Every
wait of the process includes a pipe that the interpreter fills at each signal (`set_wakeup_fd`): a
signal ends the wait at once, even if it came a moment before the wait began.

For a job process TERM means to cancel, as in Ganeti, also if an operator sends it by hand; or to end at once if a
message says so (`is_kill`); or, at the end of a shutdown, that the machine goes (`asked_by_shutdown`). USR1 announces a
new priority; HUP (which wconfd sends to Ganeti's job processes) and CHLD only wake. HUP still needs a handler: its
default action is death. The fork server installs the handlers, for itself and for the jobs: a child only makes its own
pipe, so there is no moment with another action, and no cost.

Source: luxid.md 9.3.
"""

import contextlib
import math
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

# Whether this machine, or container, is being shut down or restarted.
#
# Theory. At the very end of a shutdown, when all services are stopped, systemd's first process becomes another program,
# which sends SIGTERM to every process that is left, and SIGKILL to those that are still there after a pause (90 s by
# default). So a process that gets SIGTERM then is not meant by anybody who wants its work to end, and holds up the
# machine as long as it stays. Who sent a signal is not told to a handler of Python; the name of the first process is.


_FIRST_PROCESS: Final = Path("/proc/1/comm")
# the name of `systemd-shutdown`, of which the kernel keeps 15 characters
_SHUTDOWN: Final = "systemd-shutdow"
SHUT_DOWN_TEXT: Final = "the machine was shut down while the job ran"


def is_shutting_down() -> bool:
    """Whether all that is left on the machine is being ended; false where that cannot be known. Costs one read."""
    try:
        return _FIRST_PROCESS.read_text().rstrip("\n") == _SHUTDOWN
    except (OSError, UnicodeDecodeError):
        return False


HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)


def do_nothing() -> None:
    pass


def _never() -> bool:
    return False


class ProcessSignals:
    """The requests that signals have brought so far; one object for a process."""

    def __init__(self) -> None:
        # set by TERM and INT, permanently
        self.cancel_asked = False
        # function that tells whether the last TERM meant to end at once; called once after each, outside the handler
        self.is_kill: Callable[[], bool] = _never
        self._term_came = self._is_killed = False
        # set by HUP
        self.hup_came = False
        # function called after USR1, outside the handler, in the next `wait` or `look`
        self.on_priority: Callable[[], None] = do_nothing
        self._priority_changed = False
        self._reader = self._writer = -1

    def install(self) -> None:
        """Install the handlers of this process."""
        self.open()
        signal.signal(signal.SIGTERM, self._ask_cancel)
        signal.signal(signal.SIGINT, self._ask_cancel)
        signal.signal(signal.SIGUSR1, self._change_priority)
        signal.signal(signal.SIGHUP, self._note_hup)
        signal.signal(signal.SIGCHLD, self._wake)

    def begin_anew(self) -> None:
        """Forget the parent's signals, in a forked child; `HANDLED` must be blocked since before the fork."""
        reader, writer = self._reader, self._writer
        self.open()
        os.close(reader)
        os.close(writer)
        self.cancel_asked = self._is_killed = self.hup_came = self._term_came = self._priority_changed = False
        self.on_priority, self.is_kill = do_nothing, _never

    def open(self) -> None:
        """Make the pipe for signals that have handlers already; install none."""
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    @property
    def kill_asked(self) -> bool:
        """Whether the process is to end at once, permanently. A caller checks `cancel_asked`, if at all, before."""
        if self._term_came:
            self._term_came = False
            self._is_killed = self._is_killed or self.is_kill()
        return self._is_killed

    @property
    def asked_by_shutdown(self) -> bool:
        """Whether TERM came, and the machine is being shut down: nobody wants the work to end, but it does now."""
        return self.cancel_asked and is_shutting_down()

    def fileno(self) -> int:
        """A descriptor that is readable after a signal, until `drain`."""
        return self._reader

    @property
    def fds(self) -> tuple[int, int]:
        """Both descriptors of the pipe."""
        return self._reader, self._writer

    def drain(self) -> None:
        """Empty the pipe for the next signal; the flags stay."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._reader, 4096)) == 4096:
                pass

    def close(self) -> None:
        """Close the pipe; the handlers stay."""
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float | None, *fds: int, writing: int | None = None) -> tuple[int, ...]:
        """Wait until one of these descriptors is readable, a signal comes, or the time is over.

        Args:
            writing: one more descriptor, or one of them, which is also waited for until it takes bytes.
        Returns: the descriptors that are readable (or at their end, or writable); empty after a signal only.
        """
        poller = select.poll()
        for fd in (self._reader, *fds):
            poller.register(fd, select.POLLIN)
        if writing is not None:
            poller.register(writing, select.POLLOUT | (select.POLLIN if writing in fds else 0))
        timeout_ms = None if timeout_s is None else math.ceil(max(timeout_s, 0) * 1000)
        ready = [fd for fd, _ in poller.poll(timeout_ms)]
        if self._reader in ready:
            self.drain()
        self.look()
        return tuple(fd for fd in ready if fd != self._reader)

    def look(self) -> None:
        """Apply a signalled new priority, which is allowed at any step."""
        if self._priority_changed:
            self._priority_changed = False
            self.on_priority()

    def _ask_cancel(self, number: int, frame: FrameType | None) -> None:
        self.cancel_asked = self._term_came = True

    def _change_priority(self, number: int, frame: FrameType | None) -> None:
        self._priority_changed = True

    def _note_hup(self, number: int, frame: FrameType | None) -> None:
        self.hup_came = True

    def _wake(self, number: int, frame: FrameType | None) -> None:
        pass
