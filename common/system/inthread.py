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

# seconds of a pause for threads: some of their steps
_PAUSE_S: Final = 0.001

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_log: Final = get_log(__name__)
# one for each work that a thread does, or that waits for a thread
_under_way: Final[set[object]] = set()


async def try_in_thread(
    work: Callable[[*Ts], T],
    *args: *Ts,
    limiter: trio.CapacityLimiter | None = None,
    abandon_on_cancel: bool = False,
) -> T:
    """As `trio.to_thread.run_sync`. Raises: NoThread; and what `work` raises."""
    _under_way.add(token := object())
    try:
        return await trio.to_thread.run_sync(work, *args, limiter=limiter, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        if not is_refused(error):
            raise
        raise NoThread from error
    finally:
        _under_way.remove(token)


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


async def give_way() -> None:
    """Let others go on in the midst of long work of the event loop; call it every few milliseconds.

    A loop that is never idle leaves the interpreter to threads for one step every 5 ms, and a submission takes twenty
    such steps. So this waits for a moment if a thread is at work; else only other tasks have their turn.
    """
    if _under_way:
        await trio.sleep(_PAUSE_S)
    else:
        await trio.lowlevel.checkpoint()


def tell_no_thread(error: NoThread, work: str, retry_s: float) -> None:
    """Log that work waits for a thread."""
    _log.error("thread.not_started", work=work, reason=error, retry_s=retry_s)
