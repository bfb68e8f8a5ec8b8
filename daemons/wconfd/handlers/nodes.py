"""Changes of the set of nodes and of their roles; refused while an owner holds the configuration's lock.

Source: DESIGN section 13.
"""

from typing import Final

import attrs

from common.objects.codec import decode_object
from common.objects.config import Config
from common.objects.node import Node
from common.system.log import get_log
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.nodechanges import NodeChange, change_nodes
from daemons.wconfd.handlers.deliveredcalls import delivery_of
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.nodes import ChangeNodes

_log: Final = get_log(__name__)


@attrs.frozen
class NodeHandlers:
    _short_lock: ShortLock

    async def change_nodes(self, call: ChangeNodes, peer: Peer) -> Stamp | None:
        change = NodeChange(
            nodes=tuple(decode_object(node, Node, "node") for node in call.nodes),
            removed=call.removed,
            certificates=call.certificates,
            may_fall_short=call.may_fall_short,
            candidate_pool_size=call.candidate_pool_size,
        )

        def step(config: Config, now: float, told: Stamp | None) -> tuple[Config, Stamp]:
            return change_nodes(config, change, now, told)

        stamp = await self._short_lock.update(delivery_of(call), step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp
