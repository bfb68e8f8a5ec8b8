"""Work in a thread beside the event loop, also when the system gives no thread just now.

Theory. A thread that cannot be started says nothing about the work: nothing of it was done. It is a shortage that
passes, as one of descriptors is: the work is held, that is told, and a thread is asked for again, after pauses that
double. Who only begins, and whom nobody waits for yet, is told at once.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import trio

from common.system.log import get_log
from common.system.threadstart import NoThread, is_refused

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_log: Final = get_log(__name__)


async def try_in_thread(
    work: Callable[[*Ts], T],
    *args: *Ts,
    limiter: trio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> T:
    """As `trio.to_thread.run_sync`. Raises: NoThread; and what `work` raises."""
    try:
        return await trio.to_thread.run_sync(work, *args, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        if not is_refused(error):
            raise
        raise NoThread from error


async def in_thread(
    work: Callable[[*Ts], T],
    *args: *Ts,
    limiter: trio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> T:
    """As `trio.to_thread.run_sync`, however long it takes until there is a thread.

    Raises: what `work` raises.
    Cancellation: also while it waits for a thread; nothing is done then.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await try_in_thread(work, *args, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
        except NoThread as error:
            tell_no_thread(error, getattr(work, "__name__", "work"), pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def tell_no_thread(error: NoThread, work: str, retry_s: float) -> None:
    """Log that a piece of work waits for a thread."""
    _log.error("thread.not_started", work=work, reason=error, retry_s=retry_s)
