"""Changes of the set of networks and of their values; refused while an owner holds the configuration's lock.

Source: wconfd.md 2.3 and 2.4.
"""

from typing import Final

import attrs

from common.objects.codec import decode_object
from common.objects.config import Config
from common.objects.networks.network import Network
from common.system.log import get_log
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.config.networkchanges import NetworkChange, change_networks
from daemons.wconfd.handlers.deliveredcalls import delivery_of
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.networks import ChangeNetworks

_log: Final = get_log(__name__)


@attrs.frozen
class NetworkHandlers:
    _short_lock: ShortLock

    async def change_networks(self, call: ChangeNetworks, peer: Peer) -> Stamp | None:
        networks = tuple(decode_object(network, Network, "network") for network in call.networks)
        change = NetworkChange(networks=networks, removed=call.removed)

        def step(config: Config, now: float, told: Stamp | None) -> tuple[Config, Stamp]:
            return change_networks(config, change, now, told)

        stamp = await self._short_lock.update(delivery_of(call), step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp
