"""Probe a livelock after an event, until it is certain whether its holder lives.

Source: DESIGN sections 5 and 11, "an error of the disk or of descriptors".
"""

from collections.abc import Iterable
from typing import Final

import trio

from common.system.livelock import PROBE_AGAIN_AFTER_S, Life, is_alive, probe
from common.system.log import get_log

_LONGEST_PAUSE_S: Final = 5.0
# probes between two turns of other tasks; each takes about 0.1 ms
_PROBES_AT_ONCE: Final = 16
_log: Final = get_log(__name__)


async def is_found_dead(path: str) -> bool:
    """Whether the holder is dead, asked after an event on its livelock.

    Probes again after `PROBE_AGAIN_AFTER_S`, and with growing pauses while a probe cannot be made.
    """
    for pause_s in (0.0, *PROBE_AGAIN_AFTER_S):
        await trio.sleep(pause_s)
        if await _life_of(path) is Life.DEAD:
            return True
    return False


async def dead_of(paths: Iterable[str]) -> list[str]:
    """Those of these livelocks whose holders are dead; other tasks run between the probes of many."""
    dead: list[str] = []
    for number, path in enumerate(tuple(paths)):
        if number % _PROBES_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        if not is_alive(path):
            dead.append(path)
    return dead


async def _life_of(path: str) -> Life:
    """Return the result of the first probe that could be made."""
    pause_s = PROBE_AGAIN_AFTER_S[-1]
    while (life := probe(path)) is Life.UNKNOWN:
        _log.warning("livelock.not_probed", livelock=path, effect="its holder counts as alive", retry_s=pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return life
