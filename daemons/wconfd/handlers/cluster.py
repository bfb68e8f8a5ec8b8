"""The parameters of the cluster, and its end.

Source: wconfd.md 2.3 and 2.5.
"""

from typing import Final

import attrs

from common.errors import Conflict
from common.locks import BGL, LockMode, LockRequest, Owner
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.clusterchanges import change_cluster
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.deliveries import Stamp
from daemons.wconfd.core.locks.waiting import try_update, update_or_queue
from daemons.wconfd.handlers.deliveredcalls import delivery_of
from daemons.wconfd.lockchecks import Changer
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.shortlock import ShortLock
from protocol.peer import Peer
from protocol.wconfd.changes import PrepareClusterDestruction
from protocol.wconfd.clusterchanges import ChangeCluster
from protocol.wconfd.locks import Unit

# priority before all others
_FIRST: Final = -21
_EXCLUSIVE: Final = (LockRequest(BGL, LockMode.EXCLUSIVE),)
_RELEASE: Final = (LockRequest(BGL, None),)

_log: Final = get_log(__name__)


@attrs.frozen
class ClusterHandlers:
    _config: ConfigStore
    _locks: LockStore
    # the daemon itself as an owner: without a pid, because it needs no signal for its grants
    _own: Owner
    _short_lock: ShortLock

    async def change_cluster(self, call: ChangeCluster, peer: Peer) -> Stamp | None:
        def step(config: Config, now: float, told: Stamp | None) -> tuple[Config, Stamp]:
            return change_cluster(config, call.values, call.serial_no, now, told)

        stamp = await self._short_lock.update(delivery_of(call), step, Changer(call.METHOD, peer))
        _log.info("config.changed", method=call.METHOD, by=peer, refused=stamp is None)
        return stamp

    async def prepare_cluster_destruction(self, call: PrepareClusterDestruction, peer: Peer) -> Unit:
        """A second delivery does nothing: the daemon has the BGL then, and needs nothing from the caller."""
        if self._mode(self._own) is not LockMode.EXCLUSIVE:
            if self._mode(call.owner) is not LockMode.EXCLUSIVE:
                raise Conflict(
                    f"to destroy the cluster one must hold the lock 'cluster/BGL' exclusively, which {call.owner} "
                    "does not; take it with updateLocksWaiting",
                    owner=str(call.owner),
                )
            await self._locks.change(self._own, lambda state: update_or_queue(state, self._own, _FIRST, _EXCLUSIVE))
            await self._locks.change(call.owner, lambda state: try_update(state, call.owner, _RELEASE))
        await self._config.change(_without_master)
        _log.warning("cluster.destroyed", owner=call.owner, by=peer, effect="nobody gets the BGL any more")
        return ()

    def _mode(self, owner: Owner) -> LockMode | None:
        return self._locks.state.table.mode_of(owner, BGL)


def _without_master(config: Config, now: float) -> tuple[Config, None]:
    after = attrs.evolve(config, cluster=attrs.evolve(config.cluster, master_node=NodeUuid("")))
    return advanced(config, after, now), None
