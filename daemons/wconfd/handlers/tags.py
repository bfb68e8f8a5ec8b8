"""Changes of tags; refused while an owner holds the configuration's lock.

Source: opcodes.md 4.
"""

from typing import Final

import attrs

from common.objects.config import Config
from common.system.log import get_log
from daemons.wconfd.core.config.tagchanges import change_tags
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.tags import ChangeTags

_log: Final = get_log(__name__)


@attrs.frozen
class TagHandlers:
    _short_lock: ShortLock

    async def change_tags(self, call: ChangeTags, peer: Peer) -> bool:
        """A second delivery finds what it wants already there."""

        def step(config: Config, now: float) -> tuple[Config, bool]:
            return change_tags(config, call.kind.value, call.uuid, call.added, call.removed, now), True

        done = await self._short_lock.change(step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=done is None)
        return done is not None
