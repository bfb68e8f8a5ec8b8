"""The lock methods: each a function of the core, carried out by the store.

Source: wconfd.md 2.1; `waitLocks` is ours (DESIGN section 4).
"""

from typing import ClassVar, Final, Protocol

import attrs

from common.locks import Lock, LockMode, Owner
from common.system.log import get_log
from daemons.wconfd.core.locks import waiting
from daemons.wconfd.locks.deaths import Deaths
from daemons.wconfd.locks.lockstore import LockStep, LockStore
from protocol.peer import Peer
from protocol.wconfd.locks import (
    CleanupLocks,
    DownGradeLocksLevel,
    FreeLocks,
    FreeLocksLevel,
    GuardedOpportunisticLockUnion,
    HasPendingRequest,
    IntersectLocks,
    ListAllLocks,
    ListAllLocksOwners,
    ListLocks,
    ListLocksWaitingStatus,
    LocksStatus,
    OpportunisticLockUnion,
    Owned,
    Pending,
    TryUpdateLocks,
    Unit,
    UpdateLocksWaiting,
    WaitLocks,
)

# limit of one call; the client repeats it to wait longer
WAIT_AT_MOST_S: Final = 60.0

_log: Final = get_log(__name__)

Holders = tuple[tuple[Lock, tuple[tuple[Owner, LockMode], ...]], ...]


class _OfOwner(Protocol):
    """A call that changes the locks of its owner."""

    METHOD: ClassVar[str]

    @property
    def owner(self) -> Owner: ...


@attrs.frozen
class LockHandlers:
    _locks: LockStore
    _deaths: Deaths

    async def list_locks(self, call: ListLocks, _: Peer) -> tuple[Owned, ...]:
        return tuple(self._locks.held_by(call.owner).items())

    async def list_all_locks(self, _: ListAllLocks, __: Peer) -> tuple[Lock, ...]:
        return tuple(self._locks.state.table.active_locks())

    async def list_all_locks_owners(self, _: ListAllLocksOwners, __: Peer) -> Holders:
        return self._holders()

    async def list_locks_waiting_status(self, _: ListLocksWaitingStatus, __: Peer) -> LocksStatus:
        pending = (Pending(each.priority, each.owner, each.requests) for each in self._locks.state.all_pending())
        return LocksStatus(self._holders(), tuple(pending))

    async def try_update_locks(self, call: TryUpdateLocks, peer: Peer) -> tuple[Owner, ...]:
        change = await self._change(call, peer, lambda state: waiting.try_update(state, call.owner, call.requests))
        return change.blocked_on

    async def update_locks_waiting(self, call: UpdateLocksWaiting, peer: Peer) -> tuple[Owner, ...]:
        change = await self._change(
            call, peer, lambda state: waiting.update_or_queue(state, call.owner, call.priority, call.requests)
        )
        return change.blocked_on

    async def has_pending_request(self, call: HasPendingRequest, _: Peer) -> bool:
        return self._locks.state.pending_of(call.owner) is not None

    async def wait_locks(self, call: WaitLocks, _: Peer) -> bool:
        return await self._locks.wait_granted(call.owner, max(0.0, min(call.timeout, WAIT_AT_MOST_S)))

    async def free_locks(self, call: FreeLocks, peer: Peer) -> Unit:
        await self._change(call, peer, lambda state: waiting.free_all(state, call.owner))
        return ()

    async def free_locks_level(self, call: FreeLocksLevel, peer: Peer) -> Unit:
        await self._change(call, peer, lambda state: waiting.free_level(state, call.owner, call.level))
        return ()

    async def down_grade_locks_level(self, call: DownGradeLocksLevel, peer: Peer) -> Unit:
        await self._change(call, peer, lambda state: waiting.downgrade_level(state, call.owner, call.level))
        return ()

    async def intersect_locks(self, call: IntersectLocks, peer: Peer) -> Unit:
        await self._change(call, peer, lambda state: waiting.intersect(state, call.owner, call.locks))
        return ()

    async def opportunistic_lock_union(self, call: OpportunisticLockUnion, peer: Peer) -> tuple[Lock, ...]:
        change = await self._change(
            call, peer, lambda state: waiting.opportunistic_union(state, call.owner, call.wanted)
        )
        return change.taken

    async def guarded_opportunistic_lock_union(
        self, call: GuardedOpportunisticLockUnion, peer: Peer
    ) -> tuple[Lock, ...]:
        change = await self._change(
            call, peer, lambda state: waiting.guarded_union(state, call.owner, call.count, call.wanted)
        )
        return change.taken

    async def cleanup_locks(self, _: CleanupLocks, __: Peer) -> Unit:
        await self._deaths.clean_up()
        return ()

    async def _change(self, call: _OfOwner, peer: Peer, step: LockStep) -> waiting.Change:
        change = await self._locks.change(call.owner, step)
        _log.debug("locks.changed", method=call.METHOD, owner=call.owner, by=peer, blocked_on=len(change.blocked_on))
        return change

    def _holders(self) -> Holders:
        return tuple((lock, tuple(holders.items())) for lock, holders in self._locks.state.table.locks_with_holders())
