"""The configuration's file: its state, and reloading it after a change by another program.

Source: wconfd.md 11 (TRAP-7); the methods are ours.
"""

from typing import Final

import attrs

from common.errors import Conflict
from common.locks import CONFIG_LOCK
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.wconfd.config import ConfigStatus, GetConfigStatus, ReloadConfig

_log: Final = get_log(__name__)


@attrs.frozen
class ConfigFileHandlers:
    _config: ConfigStore
    _locks: LockStore

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
