"""Signs of life for systemd, which kills and restarts a service that gives none for `WatchdogSec=`.

Each sign comes from the loop that does the work of the daemon: if that hangs, the signs end. Jobs do not notice; the
new process goes on with what is in the files. Before systemd kills, it sends SIGABRT, at which the stacks of all
threads are written to standard error, which is the journal.
"""

import faulthandler
import os
from typing import Final

import trio

from common.system.daemons.sdnotify import notify

SIGN: Final = "WATCHDOG=1"
# so many signs in the time in which one is needed
_SIGNS: Final = 3


def sign_interval_s() -> float | None:
    """Return the seconds from one sign to the next; None: nobody waits for signs of this process."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 / _SIGNS


async def give_signs() -> None:
    """Give signs for as long as this task runs; return at once if nobody waits for them."""
    interval_s = sign_interval_s()
    if interval_s is None:
        return
    tell_stacks_at_the_end()
    while True:
        notify(SIGN)
        await trio.sleep(interval_s)


def tell_stacks_at_the_end() -> None:
    """Let SIGABRT and the like write the stacks of all threads to standard error before they end this process."""
    faulthandler.enable()
