"""Moving files durably, off the event loop.

Theory. A move that fails has changed nothing. One whose folder could not be synced has happened, and everybody sees
it: nothing is reported then but that fsync is repeated, and the caller waits for it.

Source: common/durable/atomicfile.py, common/durable/durably.py.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import trio

from common.durable.atomicfile import NotYetDurable, move_files
from common.durable.durably import settle
from common.system.inthread import in_thread, try_in_thread


async def move_durably(
    moves: Sequence[tuple[Path, Path]], limiter: trio.CapacityLimiter | None = None
) -> frozenset[Path]:
    """Rename each (source, target), making folders of targets as needed.

    Returns: the sources that are not there; the others have been moved.
    Raises: OSError: one could not be moved; those before it are, and those after it are not.
    Cancellation: while an fsync is repeated; all that can be moved is, by then.
    Durability: on return the moves survive a loss of power.
    """
    with trio.CancelScope(shield=True):
        try:
            return frozenset(await try_in_thread(move_files, moves, limiter=limiter))
        except NotYetDurable as error:
            unsettled = error
    missing = _not_moved(moves)
    # a disk that is unwell keeps the thread for as long as it likes, and must not keep a daemon that is to end
    await in_thread(settle, unsettled, abandon_on_cancel=True)
    return missing


def _not_moved(moves: Sequence[tuple[Path, Path]]) -> frozenset[Path]:
    return frozenset(source for source, target in moves if not os.path.lexists(target))
