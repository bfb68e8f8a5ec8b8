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
import selectors
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from common.daemons import MASTER_DAEMONS, WARNING, Daemon, daemon_named
from common.errors import GantryError, Unavailable
from common.nodes.mastershipnotes import read_not_master
from common.paths import Paths
from common.system.daemons.pidfile import PidFile
from common.system.log import get_log
from daemons.supervisor.core.restarts import READY_TIMEOUT_S, Event, Keeping, Phase, step
from daemons.supervisor.daemonprocess import DaemonProcess
from daemons.supervisor.signalpipe import ENDING, LOOK_AGAIN, SignalPipe

_KEEPER: Final = "keeperd"
# seconds in which keeperd gives the mastership up, or is killed
_GIVING_UP_S: Final = 30.0
_log = get_log(__name__)


class StopAsked(Exception):
    """A signal came that ends the supervisor."""


class Supervisor:
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
        self._kept = {daemon.name: Keeping(is_needed=daemon.is_needed) for daemon in daemons()}
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
            if self._kept[name].phase is Phase.ABSENT:
                self._launch(name)
            while self._kept[name].phase is Phase.FIRST_START:
                self._attend()

    def keep_running(self) -> None:
        """Restart daemons that end, until a signal asks the supervisor to stop."""
        with contextlib.suppress(StopAsked):
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
        left = [name for name, kept in self._kept.items() if kept.phase is Phase.LEFT]
        kept = {name: state for name, state in self._kept.items() if name not in left}
        self._kept = {name: kept.get(name) or _fresh(name) for name in names}

    def _attend(self) -> None:
        """Wait for an event, and handle it. Raises: as `start_all`."""
        self._wait_for_event()
        for name, process in list(self._running.items()):
            if self._kept[name].phase is Phase.LEFT:
                # stopped with another one, in this very round
                continue
            if self._kept[name].is_starting:
                self._look_at_start(name, process)
            elif process.has_ended:
                self._note_end(name)
        for name, kept in self._kept.items():
            if kept.phase is Phase.PAUSING and kept.is_due(time.monotonic()):
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
            raise StopAsked
        self._looks_again |= LOOK_AGAIN in signals

    def _launch(self, name: str) -> None:
        try:
            self._running[name] = DaemonProcess(name, self._paths, self._root)
        except OSError as error:
            self._note_failure(name, error)
        else:
            self._step(name, Event.LAUNCHED)

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
        self._step(name, Event.READY)
        self._lacking.pop(name, None)
        pid = self._running[name].pid
        _log.info("supervisor.started", daemon=name, pid=pid)
        self._tell(f"{name:<10}  ready  pid {pid}")

    def _leave_mastership(self) -> None:
        """Leave the daemons of the master alone: one of them says that another node is the master."""
        for name in [name for name in reversed(self._kept) if name in MASTER_DAEMONS]:
            self._stop(name)
            self._step(name, Event.NOT_MASTER)
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
        self._step(name, Event.ENDED)
        self._tell_restart(name, f"ended {how}")

    def _note_failure(self, name: str, error: Unavailable | OSError) -> None:
        self._step(name, Event.FAILED)
        if self._kept[name].phase is Phase.GIVEN_UP:
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

    def _step(self, name: str, event: Event) -> None:
        self._kept[name] = step(self._kept[name], event, time.monotonic())

    def _tell_restart(self, name: str, why: str) -> None:
        pause_s = self._kept[name].pause_s
        _log.warning("supervisor.ended", daemon=name, why=why, restart_s=pause_s)
        self._tell(f"{name:<10}  {why}; starting it again{f' in {pause_s:g} s' if pause_s else ''}")


def _fresh(name: str) -> Keeping:
    """As after a pause: nobody waits for this start, so it is repeated until it succeeds."""
    return Keeping(Phase.PAUSING, time.monotonic(), is_needed=daemon_named(name).is_needed)
