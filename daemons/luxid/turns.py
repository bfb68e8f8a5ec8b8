"""Long work of the event loop in slices, between which others have their turn.

Theory. What one call asks for is bounded, but the bound of all its parts may be half a second of work. So the work is
a generator, which says at each step how much it has done, and here the loop is given to others whenever enough was.
The core knows nothing of that: it says where it may be interrupted. What is short is not interrupted at all.

Source: DESIGN section 6.
"""

from collections.abc import Generator
from typing import Final, TypeVar

import trio

# units of work, e.g. opcodes, between two turns of others: some milliseconds
AT_ONCE: Final = 100
# or so many seconds, as some opcodes are large
SLICE_S: Final = 0.005

T = TypeVar("T")


async def in_turns(work: Generator[int, None, T], at_once: int = AT_ONCE) -> T:
    """Do all of it, and give others their turn after every `at_once` units, or SLICE_S; returns what it returns.

    Args:
        work: yields how many units it has done since it last did.
    Raises: what it raises.
    Cancellation: between two steps of a work that is not short.
    """
    done, began_at = 0, trio.current_time()
    while True:
        try:
            done += next(work)
        except StopIteration as end:
            value: T = end.value
            return value
        if done >= at_once or trio.current_time() - began_at > SLICE_S:
            await trio.lowlevel.checkpoint()
            done, began_at = 0, trio.current_time()
