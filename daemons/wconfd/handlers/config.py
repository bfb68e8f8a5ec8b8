"""The whole configuration: read, verify, lock, write, flush; and single objects of it, read.

Ours are the reading of single objects, the state of the file, its reload after a change by another program, and the
list of what was changed without its lock.

Source: wconfd.md 2.2, 7.8 and 11 (TRAP-7).
"""

from collections.abc import Mapping
from typing import Final

import attrs
import orjson

from common.errors import ConfigVerifyError, Conflict
from common.locks import CONFIG_LOCK, LockLevel, LockMode, LockRequest, Owner
from common.objects.codec import decode_config
from common.objects.config import Config
from common.objects.kinds import GroupUuid
from common.system.inthread import in_thread
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore
from daemons.wconfd.core.config.configstate import find_key, lacks_members, written
from daemons.wconfd.core.config.verify import find_problems
from daemons.wconfd.locks.lockstore import LockStore
from daemons.wconfd.shortlock import ConfigChanger, LockChecks
from protocol.peer import Peer
from protocol.wconfd.config import (
    ConfigStatus,
    FlushConfig,
    FlushConfigGroup,
    GetConfigStatus,
    GetObject,
    ListNodesBehind,
    LockConfig,
    NodeBehind,
    ReadConfig,
    RedistributeConfig,
    ReloadConfig,
    UnlockConfig,
    VerifyConfig,
    WriteConfig,
    WriteConfigAndUnlock,
)
from protocol.wconfd.daemon import ConfigVerdict, ListLockViolations, LockViolations, VerifyConfigCopies

_log: Final = get_log(__name__)


@attrs.frozen
class ConfigHandlers:
    _store: ConfigStore
    _locks: LockStore
    _checks: LockChecks

    async def read_config(self, _: ReadConfig, __: Peer) -> orjson.Fragment:
        return self._reply()

    async def get_object(self, call: GetObject, _: Peer) -> orjson.Fragment:
        state = self._store.state
        return orjson.Fragment(state.encoded.object(*find_key(state.config, call.kind, call.id)))

    async def verify_config(self, _: VerifyConfig, __: Peer) -> tuple[()]:
        if problems := find_problems(self._store.config):
            raise ConfigVerifyError(f"the configuration is inconsistent: {'; '.join(problems)}", problems)
        return ()

    async def lock_config(self, call: LockConfig, _: Peer) -> orjson.Fragment | None:
        held = self._locks.held_by(call.owner).get(CONFIG_LOCK)
        mode = LockMode.SHARED if call.shared else LockMode.EXCLUSIVE
        if held is not None and held.covers(mode):
            # accepted while the owner waits for any lock, even for an upgrade of this one
            _log.warning("config.locked_twice", owner=call.owner, mode=held.value)
        elif await self._locks.try_update(call.owner, [LockRequest(CONFIG_LOCK, mode)]):
            return None
        # its holder must read, and later write back, changes begun before the lock was taken
        await self._store.settled()
        return self._reply()

    async def unlock_config(self, call: UnlockConfig, _: Peer) -> tuple[()]:
        await self._locks.free_level(call.owner, LockLevel.CONFIG)
        return ()

    async def write_config(self, call: WriteConfig, peer: Peer) -> tuple[()]:
        if not await self._write(call.owner, call.config, peer):
            raise Conflict(
                f"writeConfig needs the lock 'cluster/config' exclusively, which {call.owner} does not hold; "
                "take it with lockConfig",
                owner=str(call.owner),
            )
        return ()

    async def write_config_and_unlock(self, call: WriteConfigAndUnlock, peer: Peer) -> bool:
        if not await self._write(call.owner, call.config, peer):
            # probably the second delivery of a call that was carried out
            return False
        await self._locks.free_level(call.owner, LockLevel.CONFIG)
        return True

    async def flush_config(self, _: FlushConfig, __: Peer) -> tuple[()]:
        await self._store.flush()
        return ()

    async def flush_config_group(self, call: FlushConfigGroup, _: Peer) -> tuple[()]:
        await self._store.flush(GroupUuid(call.group))
        return ()

    async def redistribute_config(self, _: RedistributeConfig, __: Peer) -> tuple[str, ...]:
        return await self._store.flush()

    async def list_nodes_behind(self, _: ListNodesBehind, __: Peer) -> tuple[NodeBehind, ...]:
        return self._store.nodes_behind()

    async def verify_config_copies(self, call: VerifyConfigCopies, _: Peer) -> tuple[ConfigVerdict, ...]:
        return await self._store.check_copies(asks=call.asks)

    async def config_status(self, _: GetConfigStatus, __: Peer) -> ConfigStatus:
        foreign = await self._store.foreign_change()
        config = self._store.config
        return ConfigStatus(
            path=str(self._store.path), serial_no=config.serial_no, mtime=config.mtime, foreign_change=foreign
        )

    async def reload_config(self, _: ReloadConfig, peer: Peer) -> ConfigStatus:
        if holders := self._locks.state.table.holders(CONFIG_LOCK):
            raise Conflict(
                f"the configuration is locked by {', '.join(map(str, holders))}, who may write over it; "
                "repeat the call when it is given back"
            )
        await self._store.reload()
        _log.info("config.reloaded", by=peer, serial=self._store.config.serial_no)
        return await self.config_status(GetConfigStatus(), peer)

    async def list_lock_violations(self, _: ListLockViolations, __: Peer) -> LockViolations:
        return self._checks.violations()

    def _reply(self) -> orjson.Fragment:
        return orjson.Fragment(self._store.state.encoded.content)

    async def _write(self, owner: Owner, value: Mapping[str, object], peer: Peer) -> bool:
        given = await in_thread(decode_config, value)
        # no checkpoint between this check and the place in the queue of changes: the next owner of the lock
        # reads the configuration after this write
        if self._locks.held_by(owner).get(CONFIG_LOCK) is not LockMode.EXCLUSIVE:
            return False
        is_change = lacks_members(value)

        def step(config: Config, now: float) -> tuple[Config, None]:
            return written(config, given, now, is_change=is_change), None

        await self._store.change(self._checks.judged(step, ConfigChanger(WriteConfig.METHOD, peer, owner)))
        _log.info("config.written", owner=owner, by=peer, serial=self._store.config.serial_no)
        return True
