"""Single objects, the state of the configuration's file, and the end of the cluster.

Source: wconfd.md 2.5 and 11 (TRAP-7); what reads objects and the file is ours.
"""

from typing import Final

import attrs
import orjson

from common.access import Role
from common.errors import Conflict
from common.locks import BGL, CONFIG_LOCK, LockMode, LockRequest, Owner
from common.objects.config import Config
from common.objects.kinds import NodeUuid
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.configstate import advanced
from daemons.wconfd.core.config.objects import find_key
from daemons.wconfd.core.locks.waiting import try_update, update_or_queue
from daemons.wconfd.lockstore import LockStore
from protocol.peer import Peer
from protocol.service import Route
from protocol.wconfd.changes import PrepareClusterDestruction
from protocol.wconfd.config import ConfigStatus, GetConfigStatus, GetObject, ReloadConfig
from protocol.wconfd.locks import Unit

# more urgent than anybody may be
_FIRST: Final = -21
_EXCLUSIVE: Final = (LockRequest(BGL, LockMode.EXCLUSIVE),)
_RELEASE: Final = (LockRequest(BGL, None),)

_log: Final = get_log(__name__)


@attrs.frozen
class MiscHandlers:
    _config: ConfigStore
    _locks: LockStore
    # the daemon itself as an owner: without a pid, as it is not to be told of its grants
    _own: Owner

    async def get_object(self, call: GetObject, _: Peer) -> orjson.Fragment:
        state = self._config.state
        return orjson.Fragment(state.encoded.object(*find_key(state.config, call.kind, call.id)))

    async def config_status(self, _: GetConfigStatus, __: Peer) -> ConfigStatus:
        foreign = await self._config.foreign_change()
        config = self._config.config
        return ConfigStatus(
            path=str(self._config.path), serial_no=config.serial_no, mtime=config.mtime, foreign_change=foreign
        )

    async def reload_config(self, _: ReloadConfig, peer: Peer) -> ConfigStatus:
        if holders := self._locks.state.table.holders(CONFIG_LOCK):
            raise Conflict(
                f"the configuration is locked by {', '.join(map(str, holders))}, who may write over it; "
                "repeat the call when it is given back"
            )
        await self._config.reload()
        _log.info("config.reloaded", by=peer, serial=self._config.config.serial_no)
        return await self.config_status(GetConfigStatus(), peer)

    async def prepare_cluster_destruction(self, call: PrepareClusterDestruction, peer: Peer) -> Unit:
        """Delivered twice, it is done once: the daemon has the BGL then, and needs nothing of the caller."""
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


def misc_routes(config: ConfigStore, locks: LockStore, livelock: str) -> tuple[Route, ...]:
    """The rows of the daemon's table that belong nowhere else. Args: livelock: the daemon's own."""
    to = MiscHandlers(config, locks, Owner("wconfd", livelock))
    return (
        Route(GetObject, to.get_object, role=Role.OPERATE),
        Route(GetConfigStatus, to.config_status, role=Role.READ),
        Route(ReloadConfig, to.reload_config, role=Role.FULL),
        Route(PrepareClusterDestruction, to.prepare_cluster_destruction, role=Role.FULL),
    )
