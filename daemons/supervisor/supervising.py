"""Start the daemons and keep them running.

Each daemon is started when the one before is ready. A daemon that ends by itself is started again, as
`core/restarts.py` decides. No wait here is for one daemon only, so the end of another is noticed meanwhile. SIGTERM,
SIGINT and the hang-up of a terminal stop all daemons in the opposite order; job processes are not children of
these processes and go on. Before all others keeperd ends, if it runs: it gives the mastership up, and has the daemons
of the master stopped by SIGUSR1; had they ended before, it would take that for a failure, and start them again. At
other times SIGUSR1 says that this node's place in its cluster has changed: the daemons that belong to the new one are
started, and the others are stopped. A daemon that finds that another node is the master ends with an exit code of its
own: then it and the other daemons of a master are left alone until SIGUSR1.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from common.daemons import MASTER_DAEMONS, WARNING, Daemon, daemon_named
from common.errors import GantryError, Unavailable
from common.nodes.mastership import read_not_master
from common.paths import Paths
from common.system.log import get_log, open_log
from common.system.processes import python_command, python_environment
from common.system.program import NOT_MASTER, PidFile
from daemons.supervisor.core.restarts import READY_TIMEOUT_S, DaemonEvent, DaemonPhase, KeptDaemon, step

# One daemon as a child process: its start, its readiness, its death.
#
# Readiness is the datagram that daemons under systemd also send (`READY=1` to NOTIFY_SOCKET). Each
# daemon has a socket of its own, which tells which one is ready. Its pidfd reports its death.


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


# The signals that the supervisor obeys, as a descriptor for select.


ENDING: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
# sent when this node's place in the cluster has changed
LOOK_AGAIN: Final = signal.SIGUSR1
# signals taken at once
_MOST: Final = 4096


class SignalPipe:
    """SIGTERM, SIGINT, the hang-up of a terminal, and SIGUSR1; `reader` is readable after one of them."""

    def open(self) -> None:
        """Install the handlers. Signals that came while the previous program had them blocked are delivered now."""
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        # the handlers do nothing: the wakeup descriptor records the signal
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in (*ENDING, LOOK_AGAIN)}
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def take(self) -> frozenset[int]:
        """The signals that have come since the last call."""
        try:
            return frozenset(self.reader.recv(_MOST))
        except BlockingIOError:
            return frozenset()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.reader.close()
        self._writer.close()


_KEEPER: Final = "keeperd"
# seconds in which keeperd gives the mastership up, or is killed
_GIVING_UP_S: Final = 30.0
_log = get_log(__name__)


class StopSignal(Exception):
    """A signal came that ends the supervisor."""


class DaemonSupervisor:
    """Starts the daemons and keeps them running; as a context manager it leaves none behind.

    Args:
        daemons: finds those of this node, in the order of their start. Raises: OSError.
        root: passed on to the daemons; None: the installation of the system.
        tell: shows a line to the user.
    """

    def __init__(
        self, daemons: Callable[[], Sequence[Daemon]], paths: Paths, root: Path | None, tell: Callable[[str], None]
    ) -> None:
        self._paths = paths
        self._root = root
        self._tell = tell
        # name -> state of the daemon, in the order of the start
        self._kept = {daemon.name: KeptDaemon(is_needed=daemon.is_needed) for daemon in daemons()}
        self._daemons = daemons
        # whether the node's place may have changed
        self._looks_again = False
        # started daemons whose end has not been noticed
        self._running: dict[str, DaemonProcess] = {}
        # name of a daemon that the others can do without -> why it does not start, as told
        self._lacking: dict[str, str] = {}
        self._signals = SignalPipe()

    def __enter__(self) -> Self:
        """Raises: Conflict: another supervisor runs; the message names its pid."""
        self._pid_file = PidFile.take(self._paths.supervisor_pid_file)
        self._signals.open()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._signals.close()
            self._pid_file.release()

    def start_all(self) -> None:
        """Start the daemons in order, each when the one before is ready.

        One that the others can do without may fail: that is told, and `keep_running` tries it again.

        Raises:
            Unavailable, OSError: another one does not get ready, with the reason.
            StopAsked.
        """
        for name in self._kept:
            if self._kept[name].phase is DaemonPhase.ABSENT:
                self._launch(name)
            while self._kept[name].phase is DaemonPhase.FIRST_START:
                self._attend()

    def keep_running(self) -> None:
        """Restart daemons that end, until a signal asks the supervisor to stop."""
        with contextlib.suppress(StopSignal):
            while True:
                if self._looks_again:
                    self._follow_place()
                self._attend()

    def stop(self) -> None:
        """Stop all daemons, each before those that it needs; keeperd first, with those of the master.

        What is told meanwhile may fail, as nobody reads it any more: it is raised when all have been stopped.
        """
        with contextlib.ExitStack() as stopping:
            # carried out in the opposite order
            for name in self._kept:
                stopping.callback(self._stop, name)
            self._end_mastership()

    def _end_mastership(self) -> None:
        keeper = self._running.get(_KEEPER)
        if keeper is None:
            return
        # what was asked for before is of no interest any more
        self._signals.take()
        keeper.ask_to_end()
        until = time.monotonic() + _GIVING_UP_S
        with selectors.DefaultSelector() as selector:
            for readable in (self._signals.reader, keeper.pidfd):
                selector.register(readable, selectors.EVENT_READ)
            while not keeper.has_ended and (left_s := until - time.monotonic()) > 0:
                selector.select(left_s)
                if LOOK_AGAIN in self._signals.take():
                    for name in MASTER_DAEMONS:
                        self._stop(name)

    def _stop(self, name: str) -> None:
        process = self._running.pop(name, None)
        if process is not None and not process.stop():
            self._tell(f"{name} did not end in time and was killed")

    def _follow_place(self) -> None:
        """Stop the daemons that do not belong here any more, and let those that now do be started."""
        self._looks_again = False
        try:
            names = [daemon.name for daemon in self._daemons()]
        except (GantryError, OSError) as error:
            _log.error("place.unknown", reason=error, effect="the same daemons run on")
            return
        for name in reversed(self._kept):
            if name not in names:
                self._stop(name)
                _log.info("supervisor.stopped", daemon=name, reason="it does not belong on this node any more")
                self._tell(f"{name:<10}  stopped; it does not belong on this node any more")
        left = [name for name, kept in self._kept.items() if kept.phase is DaemonPhase.LEFT]
        kept = {name: state for name, state in self._kept.items() if name not in left}
        self._kept = {name: kept.get(name) or _fresh(name) for name in names}

    def _attend(self) -> None:
        """Wait for an event, and handle it. Raises: as `start_all`."""
        self._wait_for_event()
        for name, process in list(self._running.items()):
            if self._kept[name].phase is DaemonPhase.LEFT:
                # stopped with another one, in this very round
                continue
            if self._kept[name].is_starting:
                self._look_at_start(name, process)
            elif process.has_ended:
                self._note_end(name)
        for name, kept in self._kept.items():
            if kept.phase is DaemonPhase.PAUSING and kept.is_due(time.monotonic()):
                self._launch(name)

    def _wait_for_event(self) -> None:
        """Wait until a daemon is ready or ends, or a due time comes. Raises: StopAsked."""
        dues = [kept.due_at for kept in self._kept.values() if kept.due_at is not None]
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.reader, selectors.EVENT_READ)
            for name, process in self._running.items():
                selector.register(process.pidfd, selectors.EVENT_READ)
                if self._kept[name].is_starting:
                    selector.register(process.notifications, selectors.EVENT_READ)
            selector.select(max(min(dues) - time.monotonic(), 0) if dues else None)
        signals = self._signals.take()
        if signals & ENDING:
            raise StopSignal
        self._looks_again |= LOOK_AGAIN in signals

    def _launch(self, name: str) -> None:
        try:
            self._running[name] = DaemonProcess(name, self._paths, self._root)
        except OSError as error:
            self._note_failure(name, error)
        else:
            self._step(name, DaemonEvent.LAUNCHED)

    def _look_at_start(self, name: str, process: DaemonProcess) -> None:
        try:
            if process.check_ready():
                self._note_ready(name)
            elif process.says_not_master:
                self._leave_mastership()
            elif self._kept[name].is_due(time.monotonic()):
                raise Unavailable(f"{name} was not ready after {READY_TIMEOUT_S:.0f} s{process.log_tail()}")
        except Unavailable as error:
            self._running.pop(name).stop()
            self._note_failure(name, error)

    def _note_ready(self, name: str) -> None:
        self._step(name, DaemonEvent.READY)
        self._lacking.pop(name, None)
        pid = self._running[name].pid
        _log.info("supervisor.started", daemon=name, pid=pid)
        self._tell(f"{name:<10}  ready  pid {pid}")

    def _leave_mastership(self) -> None:
        """Leave the daemons of the master alone: one of them says that another node is the master."""
        for name in [name for name in reversed(self._kept) if name in MASTER_DAEMONS]:
            self._stop(name)
            self._step(name, DaemonEvent.NOT_MASTER)
        why = read_not_master(self._paths) or "this node is not the master"
        _log.info("supervisor.left", daemons=",".join(MASTER_DAEMONS), reason=why)
        for name in [name for name in self._kept if name in MASTER_DAEMONS]:
            self._tell(f"{name:<10}  left   {why}")

    def _note_end(self, name: str) -> None:
        if self._running[name].says_not_master:
            self._leave_mastership()
            return
        process = self._running.pop(name)
        how = process.how_ended()
        process.close()
        self._step(name, DaemonEvent.ENDED)
        self._tell_restart(name, f"ended {how}")

    def _note_failure(self, name: str, error: Unavailable | OSError) -> None:
        self._step(name, DaemonEvent.FAILED)
        if self._kept[name].phase is DaemonPhase.GIVEN_UP:
            raise error
        if self._kept[name].is_needed:
            self._tell(str(error))
            self._tell_restart(name, "did not start")
        else:
            self._tell_lack(name, str(error))

    def _tell_lack(self, name: str, why: str) -> None:
        """Tell why the others go on without this one; once, however often it is tried."""
        _log.warning("supervisor.lacks", daemon=name, why=why, restart_s=self._kept[name].pause_s)
        if self._lacking.get(name) != why:
            self._lacking[name] = why
            self._tell(f"{WARNING}{why}; all else runs, and {name} is tried again")

    def _step(self, name: str, event: DaemonEvent) -> None:
        self._kept[name] = step(self._kept[name], event, time.monotonic())

    def _tell_restart(self, name: str, why: str) -> None:
        pause_s = self._kept[name].pause_s
        _log.warning("supervisor.ended", daemon=name, why=why, restart_s=pause_s)
        self._tell(f"{name:<10}  {why}; starting it again{f' in {pause_s:g} s' if pause_s else ''}")


def _fresh(name: str) -> KeptDaemon:
    """As after a pause: nobody waits for this start, so it is repeated until it succeeds."""
    return KeptDaemon(DaemonPhase.PAUSING, time.monotonic(), is_needed=daemon_named(name).is_needed)
