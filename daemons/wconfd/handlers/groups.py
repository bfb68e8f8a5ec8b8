"""Changes of the set of node groups; refused while an owner holds the configuration's lock.

Source: opcodes.md 4.
"""

from typing import Final

import attrs

from common.objects.codec import decode_object
from common.objects.config import Config
from common.objects.nodegroup import NodeGroup
from common.system.log import get_log
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.groupchanges import GroupChange, change_groups
from daemons.wconfd.handlers.deliveredcalls import delivery_of
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.groups import ChangeGroups

_log: Final = get_log(__name__)


@attrs.frozen
class GroupHandlers:
    _short_lock: ShortLock

    async def change_groups(self, call: ChangeGroups, peer: Peer) -> Stamp | None:
        change = GroupChange(
            groups=tuple(decode_object(group, NodeGroup, "node group") for group in call.groups), removed=call.removed
        )

        def step(config: Config, now: float, told: Stamp | None) -> tuple[Config, Stamp]:
            return change_groups(config, change, now, told)

        stamp = await self._short_lock.update(delivery_of(call), step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp
