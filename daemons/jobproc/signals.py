"""The signals of a process, as flags and as something one can wait for.

Theory. A handler may run between any two steps of a unit, so it does nothing but set a flag. Every
wait of the process includes a pipe that the interpreter fills at each signal (`set_wakeup_fd`): a
signal ends the wait at once, also when it came a moment before the wait began.

To a job process TERM asks to cancel, or to end at once if a message says so (`is_kill`); USR1 says that there is a new
priority; HUP (which wconfd sends to Ganeti's job processes) and CHLD only wake. HUP needs a handler all the same: its
default action is death. The fork server installs the handlers, for itself and for the jobs: a child only makes a pipe
of its own, so there is no moment with another action, and nothing to pay for.

Source: luxid.md 9.3.
"""

import contextlib
import math
import os
import select
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

HANDLED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)


def _do_nothing() -> None:
    pass


def _never() -> bool:
    return False


class ProcessSignals:
    """What the signals have asked for so far; one for a process."""

    def __init__(self) -> None:
        # set by TERM and INT, for good
        self.cancel_asked = False
        # whether the last TERM meant to end at once; asked once after each, outside of the handler
        self.is_kill: Callable[[], bool] = _never
        self._term_came = self._is_killed = False
        # set by HUP
        self.hup_came = False
        # called outside of the handler, in the next `wait` or `look`, after USR1
        self.on_priority: Callable[[], None] = _do_nothing
        self._priority_changed = False
        self._reader = self._writer = -1

    def install(self) -> None:
        """Take over the signals of this process."""
        self.open()
        signal.signal(signal.SIGTERM, self._ask_cancel)
        signal.signal(signal.SIGINT, self._ask_cancel)
        signal.signal(signal.SIGUSR1, self._change_priority)
        signal.signal(signal.SIGHUP, self._note_hup)
        signal.signal(signal.SIGCHLD, self._wake)

    def begin_anew(self) -> None:
        """Forget what came for the parent: for a forked child, with `HANDLED` blocked since before the fork."""
        reader, writer = self._reader, self._writer
        self.open()
        os.close(reader)
        os.close(writer)
        self.cancel_asked = self._is_killed = self.hup_came = self._term_came = self._priority_changed = False
        self.on_priority, self.is_kill = _do_nothing, _never

    def open(self) -> None:
        """Be woken by what has a handler already, and install none."""
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    @property
    def kill_asked(self) -> bool:
        """Whether the process is to end at once; for good. Who looks at `cancel_asked` as well does so before."""
        if self._term_came:
            self._term_came = False
            self._is_killed = self._is_killed or self.is_kill()
        return self._is_killed

    def fileno(self) -> int:
        """A descriptor that can be read after a signal, until `drain`."""
        return self._reader

    @property
    def fds(self) -> tuple[int, int]:
        """All descriptors that it has."""
        return self._reader, self._writer

    def drain(self) -> None:
        """Be ready for the next signal; the flags stay."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._reader, 4096)) == 4096:
                pass

    def close(self) -> None:
        """Stop waking; the handlers stay."""
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float | None, *fds: int) -> tuple[int, ...]:
        """Wait until one of these descriptors can be read, a signal comes, or the time is over.

        Returns: the descriptors that are readable (or at their end); empty after a mere signal.
        """
        poller = select.poll()
        for fd in (self._reader, *fds):
            poller.register(fd, select.POLLIN)
        timeout_ms = None if timeout_s is None else math.ceil(max(timeout_s, 0) * 1000)
        ready = [fd for fd, _ in poller.poll(timeout_ms)]
        if self._reader in ready:
            self.drain()
        self.look()
        return tuple(fd for fd in ready if fd != self._reader)

    def look(self) -> None:
        """Do what a signal asked for and what may be done at any step: a new priority."""
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
