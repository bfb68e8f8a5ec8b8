"""The end of ghosts whose time is over: `[wconfd] ghost_s`.

Source: DESIGN section 14.
"""

import time
from typing import Final

import trio

from common.errors import GantryError
from common.system.log import get_log
from daemons.wconfd.core.locks.ghostrules import expire
from daemons.wconfd.locks.lockstore import LockStore

# seconds between two attempts to free a ghost
RETRY_S: Final = 5.0
_log: Final = get_log(__name__)


async def end_ghosts(locks: LockStore, ghost_s: float) -> None:
    """Free each ghost when this time has passed since its death, by the clock of the wall; until cancelled."""
    while True:
        deaths = [ghost.since for ghost in locks.news.ghosts()]
        left_s = min(deaths) + ghost_s - time.time() if deaths else float("inf")
        if left_s > 0:
            with trio.move_on_after(left_s):
                await locks.news.ghosts_changed()
        else:
            await _end(locks, time.time() - ghost_s, ghost_s)


async def _end(locks: LockStore, until: float, ghost_s: float) -> None:
    try:
        outcome = await locks.carry_out(lambda state: expire(state, until))
    except GantryError as error:
        _log.error("ghost.not_freed", reason=error, retry_s=RETRY_S)
        await trio.sleep(RETRY_S)
        return
    for made in outcome.made:
        effect = "its locks are free; nobody has said that its command has ended"
        _log.warning("ghost.expired", owner=made.owner, ghost_s=ghost_s, effect=effect)
