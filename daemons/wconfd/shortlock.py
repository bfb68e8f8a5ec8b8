"""The daemon's own lock on the configuration: changes are made while no owner holds `cluster/config`.

An owner that has locked the configuration has read it and will write it back whole; a change in
between would be lost. So changes of single objects are refused meanwhile, and the client tries again.

Theory. There is no checkpoint between the check of the lock and the change's place in the queue. An owner that
gets the lock after the check waits for the changes queued before, so it reads this one. Therefore
nothing need be written to `locks.data`. The exception is a call that cannot be refused: it waits in the
queue of the lock like any other request.

Source: wconfd.md 2.3, 7.8 and 11 (BUG-3).
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Concatenate, Final, ParamSpec, TypeVar

import attrs
import trio

from common.errors import Conflict, Unavailable
from common.locks import CONFIG_LOCK, Lock, LockLevel, LockMode, LockRequest, Owner
from common.objects.config import Config
from common.system.log import get_log
from daemons.wconfd.configstore import ConfigStore, Step, UpdateStep
from daemons.wconfd.core.config.configstate import Delivery, Stamp
from daemons.wconfd.core.config.verify import unlocked
from daemons.wconfd.core.locks.waiting import update_or_queue
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.wconfd.daemon import LockViolation, LockViolations

# Whether those who change the configuration hold the locks of what they change.
#
# A call does not name its owner, in Ganeti's protocol; so the locks are those of the owners that the calling process
# has named as its own by their pid. A change without them is counted, logged and made, because programs of Ganeti need
# no locks for some; or it is refused, by a setting.
#
# Source: DESIGN section 8.


P = ParamSpec("P")
T = TypeVar("T")

# violations that are kept to be shown
KEPT: Final = 200
_log: Final = get_log(__name__)


@attrs.frozen
class ConfigChanger:
    """The caller that changes the configuration."""

    method: str
    peer: Peer
    # None: the call does not tell
    owner: Owner | None = None


@attrs.define
class LockChecks:
    """Judges changes, and keeps the violations of this run of wconfd.

    Args: is_required: whether a change without locks is refused.
    """

    _locks: LockStore
    _is_required: bool = False
    _count: int = 0
    _latest: deque[LockViolation] = attrs.field(factory=lambda: deque(maxlen=KEPT))

    def violations(self) -> LockViolations:
        return LockViolations(self._count, self._is_required, tuple(self._latest))

    def judged(
        self, step: Callable[Concatenate[Config, P], tuple[Config, T]], changer: ConfigChanger
    ) -> Callable[Concatenate[Config, P], tuple[Config, T]]:
        """The step with a judgement of its change, which raises Conflict if the locks are required."""
        held = self._held(changer)

        def with_judgement(config: Config, /, *args: P.args, **kwargs: P.kwargs) -> tuple[Config, T]:
            after, answer = step(config, *args, **kwargs)
            self._judge(config, after, held, changer)
            return after, answer

        return with_judgement

    def _held(self, changer: ConfigChanger) -> dict[Lock, LockMode]:
        table = self._locks.state.table
        held = table.held_by_process(changer.peer.pid)
        return held if changer.owner is None else {**held, **table.held_by(changer.owner)}

    def _judge(self, before: Config, after: Config, held: dict[Lock, LockMode], changer: ConfigChanger) -> None:
        """In the writer's thread, which is the only one that writes here."""
        for found in unlocked(before, after, held):
            self._count += 1
            self._latest.append(
                LockViolation(
                    at=time.time(),
                    method=changer.method,
                    pid=changer.peer.pid,
                    uid=changer.peer.uid,
                    changed=found.title,
                    lock=str(found.lock),
                    is_refused=self._is_required,
                )
            )
            _log.warning(
                "config.unlocked_change",
                method=changer.method,
                by=changer.peer,
                changed=found.title,
                lock=found.lock,
                refused=self._is_required,
            )
            if self._is_required:
                raise Conflict(
                    f"{found.title} may only be changed by a holder of the lock '{found.lock}', exclusively; acquire "
                    "it first, or set 'require_locks = false' in '[wconfd]'"
                )


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

    async def change(self, step: Step[T], changer: ConfigChanger) -> tuple[T] | None:
        """Change the configuration; return None, and change nothing, while an owner holds its lock.

        Raises, Durability, Cancellation: as `ConfigStore.change`, and:
            Conflict: the caller lacks the locks of what it changes, and they are required.
        """
        if self._holders():
            return None
        return (await self._config.change(self.checks.judged(step, changer)),)

    async def update(self, delivery: Delivery, step: UpdateStep, changer: ConfigChanger) -> Stamp | None:
        """As `change`, for a call whose second delivery is recognized.

        Raises, Durability, Cancellation: as `ConfigStore.update`, and as `change`.
        """
        if self._holders():
            return None
        return await self._config.update(delivery, self.checks.judged(step, changer))

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
