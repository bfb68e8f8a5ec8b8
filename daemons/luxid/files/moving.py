"""Move files durably, outside the event loop.

Theory. A failed move has changed nothing. A move whose folder could not be synced has happened, and every process sees
it: then no error is reported, the fsync is repeated, and the caller waits for it.

Source: common/durable/moves.py, common/durable/durably.py.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import trio

from common.durable.durably import settle
from common.durable.folders import NotYetDurable
from common.durable.moves import move_files
from common.system.inthread import in_thread, try_in_thread


async def move_durably(
    moves: Sequence[tuple[Path, Path]], limiter: trio.CapacityLimiter | None = None
) -> frozenset[Path]:
    """Rename each (source, target), and make missing folders of targets.

    Returns: the sources that do not exist; the others have been moved.
    Raises: OSError: a file could not be moved; the moves before it are done, those after it are not.
    Cancellation: only while an fsync is repeated; by then all moves are done.
    Durability: on return the moves survive a loss of power.
    """
    with trio.CancelScope(shield=True):
        try:
            return frozenset(await try_in_thread(move_files, moves, limiter=limiter))
        except NotYetDurable as error:
            unsettled = error
    missing = _not_moved(moves)
    # a faulty disk may hold the thread for any time, which must not keep the daemon from ending
    await in_thread(settle, unsettled, abandon_on_cancel=True)
    return missing


def _not_moved(moves: Sequence[tuple[Path, Path]]) -> frozenset[Path]:
    return frozenset(source for source, target in moves if not os.path.lexists(target))
