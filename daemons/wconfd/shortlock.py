"""The daemon's own lock on the configuration: changes are made while no owner holds `cluster/config`.

An owner that has locked the configuration has read it and will write it back whole; a change in
between would be lost. So changes of single objects are refused meanwhile, and the client tries again.

Theory. There is no checkpoint between the check of the lock and the change's place in the queue. An owner that
gets the lock after the check waits for the changes queued before, so it reads this one. Therefore
nothing need be written to `locks.data`. The exception is a call that cannot be refused: it waits in the
queue of the lock like any other request.

Source: wconfd.md 2.3, 7.8 and 11 (BUG-3).
"""

from itertools import count
from typing import Final, TypeVar

import attrs
import trio

from common.errors import Unavailable
from common.locks import CONFIG_LOCK, LockLevel, LockMode, LockRequest, Owner
from daemons.wconfd.configstore import ConfigStore, Step, UpdateStep
from daemons.wconfd.core.config.deliveries import Delivery, Stamp
from daemons.wconfd.core.locks.waiting import update_or_queue
from daemons.wconfd.lockchecks import Changer, LockChecks
from daemons.wconfd.locks.lockstore import LockStore

T = TypeVar("T")

# seconds for which a call waits for others to release the configuration
PATIENCE_S: Final = 30.0


@attrs.frozen
class ShortLock:
    _config: ConfigStore
    _locks: LockStore
    # path of the daemon's own livelock
    livelock: str
    checks: LockChecks = attrs.field(default=attrs.Factory(lambda self: LockChecks(self._locks), takes_self=True))
    _numbers: "count[int]" = attrs.field(factory=lambda: count(1))

    async def change(self, step: Step[T], changer: Changer) -> tuple[T] | None:
        """Change the configuration; return None, and change nothing, while an owner holds its lock.

        Raises, Durability, Cancellation: as `ConfigStore.change`, and:
            Conflict: the caller lacks the locks of what it changes, and they are required.
        """
        if self._holders():
            return None
        return (await self._config.change(self.checks.judged(step, changer)),)

    async def update(self, delivery: Delivery, step: UpdateStep, changer: Changer) -> Stamp | None:
        """As `change`, for a call whose second delivery is recognized.

        Raises, Durability, Cancellation: as `ConfigStore.update`, and as `change`.
        """
        if self._holders():
            return None
        return await self._config.update(delivery, self.checks.judged_once(step, changer))

    async def wait_and_change(self, caller: Owner | None, step: Step[T], patience_s: float = PATIENCE_S) -> T:
        """Change the configuration as soon as no owner but the caller holds its lock.

        Raises: as `ConfigStore.change`, and:
            Unavailable: the time is over; nothing was changed.
        Durability, Cancellation: as there.
        """
        holders = self._holders()
        if not holders or caller in holders:
            return await self._config.change(step)
        own = Owner(f"wconfd-{next(self._numbers)}", self.livelock)
        try:
            await self._take(own, patience_s)
            return await self._config.change(step)
        finally:
            with trio.CancelScope(shield=True):
                await self._locks.free_level(own, LockLevel.CONFIG)

    async def _take(self, own: Owner, patience_s: float) -> None:
        request = LockRequest(CONFIG_LOCK, LockMode.EXCLUSIVE)
        await self._locks.change(own, lambda state: update_or_queue(state, own, 0, [request]))
        if not await self._locks.wait_granted(own, patience_s):
            holders = ", ".join(map(str, self._holders()))
            raise Unavailable(f"the configuration is locked by {holders}; repeat the call when it is given back")

    def _holders(self) -> tuple[Owner, ...]:
        return tuple(self._locks.state.table.holders(CONFIG_LOCK))
