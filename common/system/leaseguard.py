"""The end of a process of the master when the mastership of this node has run out, whatever else it is doing.

Theory. keeperd moves the deadline on with each renewal of the lease. When it has passed, another node may be the
master, so nothing here may act for one moment longer: no answer, no write, no job. Nobody may be left to stop this
process, so it ends by itself, at once, as by SIGKILL: an orderly end could take long. A process with an event loop has
a thread for this, since the loop may be busy; the fork server, which may have no threads, has the timer among its
events.

The timer is set for the deadline as it was seen last, so it fires once for many renewals.

A process that was stopped and goes on has no order among its threads: the event loop may be first, and requests wait
for it. So it looks at the deadline before each reply, too.

Source: DESIGN section 14; lease.md 7 and 8.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from common.lease.deadline import Deadline
from common.system.clocks import BootTimer
from common.system.log import get_log
from common.system.processes import EndLaunched, Process, find_process, kill_left_jobs, own_children, send_all
from common.system.program import NOT_MASTER
from common.system.shortages import start_thread

# time for the last line of the log; a disk may hang
_FAREWELL_S: Final = 0.5
# time for killed processes to go, before they are counted again
_ROUND_S: Final = 0.02
_log: Final = get_log(__name__)
# the deadlines that this process watches
_watched: Final[list[Deadline]] = []


class DeadlineTimer:
    """A descriptor that is readable when the deadline may have passed: then ask `has_passed`. Raises: OSError."""

    def __init__(self, deadline: Deadline, *, blocking: bool = False) -> None:
        self._deadline = deadline
        self._timer = BootTimer(blocking=blocking)
        self._timer.set(deadline.until_s)

    def fileno(self) -> int:
        return self._timer.fileno()

    def wait(self) -> None:
        """Wait until it may have passed, in a thread; of a blocking timer."""
        self._timer.wait()

    def has_passed(self) -> bool:
        """Whether the deadline has passed; if it was moved on, the descriptor is readable again later."""
        if self._deadline.has_passed:
            return True
        self._timer.set(self._deadline.until_s)
        return False

    def close(self) -> None:
        self._timer.close()


def end_at_deadline(deadline: Deadline, end: Callable[[], NoReturn] | None = None) -> None:
    """Let this process end when the deadline has passed, unless it ends before.

    Args: end: called in a thread of its own; None: `end_now`.
    Raises: NoThread, OSError: that cannot be watched; the process must not go on.
    """
    timer = DeadlineTimer(deadline, blocking=True)
    start_thread(threading.Thread(target=_follow, args=(timer, end or end_now), daemon=True, name="lease guard"))
    _watched.append(deadline)


def end_if_passed() -> None:
    """End this process at once if a deadline that it watches has passed: asked before anything is told to others."""
    if any(deadline.has_passed for deadline in _watched):
        end_now()


def _follow(timer: DeadlineTimer, end: Callable[[], NoReturn]) -> None:
    while True:
        timer.wait()
        if timer.has_passed():
            end()


def end_now() -> NoReturn:
    """End this process without delay, with the exit code of a daemon that finds that its node is not the master."""
    # its default action is the end, should the log not take the line
    signal.setitimer(signal.ITIMER_REAL, _FAREWELL_S)
    effect = "this process ends at once, another node may be the master"
    _log.error("master.deadline_passed", pid=os.getpid(), effect=effect)
    os._exit(NOT_MASTER)


def end_with_jobs(livelocks: Path, end_launched: EndLaunched | None = None) -> NoReturn:
    """Kill all jobs of this node with what they have started, and then end; for the process that starts them.

    Args: end_launched: as for `kill_left_jobs`.
    """
    for attempt in itertools.count():
        try:
            killed = kill_left_jobs(livelocks, end_launched) or _kill_children()
        except OSError as error:
            if not attempt:
                _log.error("jobs.not_killed", reason=error, going_on="again until it succeeds")
        else:
            if not killed:
                end_now()
            if not attempt:
                pids = sorted(process.pid for process in killed)
                _log.warning("jobs.killed", pids=pids, reason="the deadline has passed")
        time.sleep(_ROUND_S)
    raise AssertionError("counting ends never")


def _kill_children() -> frozenset[Process]:
    """Kill processes of jobs that have no livelock yet."""
    living = frozenset(process for pid in own_children() if (process := find_process(pid)) is not None)
    send_all(living, signal.SIGKILL)
    return living
