"""Long work of the event loop in slices, between which other tasks run.

Theory. The work of one call is bounded, but its parts together may take half a second. So the work is
a generator that yields at each step how much it has done, and this loop lets other tasks run whenever that is enough.
The core needs no event loop for that: it only marks where it may be interrupted. Short work is not interrupted at all.

Source: DESIGN section 6.
"""

import contextlib
import gc
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

import trio

from common.system.inthread import give_way

# units of work, e.g. opcodes, between two turns of other tasks: some milliseconds
AT_ONCE: Final = 100
# or seconds, because some opcodes are large
SLICE_S: Final = 0.005

T = TypeVar("T")


async def in_turns(work: Generator[int, None, T], at_once: int = AT_ONCE) -> T:
    """Do all the work, and let other tasks run after every `at_once` units, or SLICE_S; return its result.

    Args:
        work: yields the number of units done since its last yield.
    Raises: the exceptions of the work.
    Cancellation: between two steps of work that is not short.
    """
    done, began_at = 0, trio.current_time()
    while True:
        try:
            done += next(work)
        except StopIteration as end:
            value: T = end.value
            return value
        if done >= at_once or trio.current_time() - began_at > SLICE_S:
            await give_way()
            done, began_at = 0, trio.current_time()


# Objects that are made in masses and stay, such as the jobs of a large submission.
#
# Theory. The garbage collector examines all objects made since its last run, and sometimes all objects: a
# tenth of a second at once, in vain, as jobs are not in cycles. So it does not run while they are made, and afterwards
# ignores them. Each is still freed when its last reference goes.
#
# Source: DESIGN section 6.


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """Within this context the collector does not run, and later it ignores objects made within it."""
    gc.disable()
    try:
        yield
    finally:
        # first: otherwise the next object would start a run over all that has accumulated
        gc.freeze()
        gc.enable()
