"""Work in a thread beside the event loop, even while the system cannot start a thread.

Theory. If a thread cannot be started, none of the work has been done. The shortage is
temporary, like one of descriptors: the work is held, the log says so, and the start is tried again after pauses that
double. A program that is only starting, with no caller waiting yet, gets the error at once.

Source: DESIGN section 11, "an error of the disk or of descriptors".
"""

from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import trio

from common.system.log import get_log
from common.system.shortages import NoThread, is_refused, retry_pauses

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
    """As `trio.to_thread.run_sync`, but waits as long as no thread can be started.

    Raises: what `work` raises.
    Cancellation: also while it waits for a thread; then the work is not done.
    """
    retries = retry_pauses()
    while True:
        try:
            return await try_in_thread(work, *args, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
        except NoThread as error:
            tell_no_thread(error, getattr(work, "__name__", "work"), pause_s := next(retries))
        await trio.sleep(pause_s)


def tell_no_thread(error: NoThread, work: str, retry_s: float) -> None:
    """Log that work waits for a thread."""
    _log.error("thread.not_started", work=work, reason=error, retry_s=retry_s)
