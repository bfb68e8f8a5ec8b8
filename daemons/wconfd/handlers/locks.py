"""The lock methods: each a function of the core, carried out by the store.

Source: wconfd.md 2.1; `waitLocks` is ours (DESIGN section 4).
"""

import time
from typing import ClassVar, Final, Protocol

import attrs

from common.errors import Unavailable
from common.locks import Lock, LockMode, Owner
from common.system.livelock import Life, probe
from common.system.log import get_log
from daemons.wconfd.core.locks import orphanedlocks, waiting
from daemons.wconfd.core.locks.explain import explain_holdings, explain_wait
from daemons.wconfd.locks.deaths import LockOwnerDeaths
from daemons.wconfd.locks.lockstore import LockStep, LockStore
from protocol.peer import Peer
from protocol.wconfd.locks import (
    AdoptLocks,
    ClaimLocks,
    CleanupLocks,
    DownGradeLocksLevel,
    ExplainHoldings,
    ExplainWait,
    FreeLocks,
    FreeLocksLevel,
    GuardedOpportunisticLockUnion,
    HasPendingRequest,
    HoldingsExplanation,
    IntersectLocks,
    KeepLocks,
    ListAllLocks,
    ListAllLocksOwners,
    ListLocks,
    ListLocksWaitingStatus,
    ListOrphanedLocks,
    LocksStatus,
    OpportunisticLockUnion,
    OrphanedLocks,
    Owned,
    Pending,
    ReleaseKeptLocks,
    TryUpdateLocks,
    Unit,
    UpdateLocksWaiting,
    WaitExplanation,
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
    _deaths: LockOwnerDeaths

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
        change = await self._change(
            call,
            peer,
            lambda state: waiting.try_update(state, call.owner, call.requests),
            gives_back=all(request.mode is None for request in call.requests),
        )
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
        await self._change(call, peer, lambda state: waiting.free_all(state, call.owner), gives_back=True)
        return ()

    async def free_locks_level(self, call: FreeLocksLevel, peer: Peer) -> Unit:
        await self._change(call, peer, lambda state: waiting.free_level(state, call.owner, call.level), gives_back=True)
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

    async def _change(
        self, call: _OfOwner, peer: Peer, step: LockStep, *, gives_back: bool = False
    ) -> waiting.LockChange:
        change = await self._locks.change(call.owner, step, gives_back=gives_back)
        _log.debug("locks.changed", method=call.METHOD, owner=call.owner, by=peer, blocked_on=len(change.blocked_on))
        return change

    def _holders(self) -> Holders:
        return tuple((lock, tuple(holders.items())) for lock, holders in self._locks.state.table.locks_with_holders())


# Who holds locks, who waits for them and why, and since when.
#
# Source: DESIGN section 6, "Explain"; the methods are ours.


@attrs.frozen
class ExplainingHandlers:
    _locks: LockStore

    async def explain_wait(self, call: ExplainWait, _: Peer) -> WaitExplanation:
        since = self._locks.since
        return explain_wait(
            self._locks.state,
            call.owner,
            held_since=since.held,
            waiting_since=since.waiting,
            counting_since=since.started,
            ghost_s=self._locks.news.ghost_s,
        )

    async def explain_holdings(self, call: ExplainHoldings, _: Peer) -> HoldingsExplanation:
        since = self._locks.since
        held = explain_holdings(self._locks.state, call.owners, held_since=since.held)
        return HoldingsExplanation(held, since.started)


# Orphaned locks: each call is a function of the core, carried out by the store. The methods are ours.
#
# Source: `protocol.wconfd.locks`; DESIGN sections 13 and 14.


@attrs.frozen
class OrphanHandlers:
    _locks: LockStore
    _deaths: LockOwnerDeaths

    async def keep_locks(self, call: KeepLocks, _: Peer) -> Unit:
        await self._locks.change(call.owner, lambda state: orphanedlocks.keep_for(state, call.owner, call.commands))
        return ()

    async def release_kept_locks(self, call: ReleaseKeptLocks, peer: Peer) -> Unit:
        keys = frozenset(call.keys)
        before = self._locks.state.may_run.orphans
        outcome = await self._locks.carry_out(lambda state: orphanedlocks.release(state, keys))
        for made in outcome.made if outcome.has_effect else ():
            is_free = made.owner in before and made.owner not in outcome.state.may_run
            _log.info(
                "kept_locks.released", owner=made.owner, word=call.word, by=peer, locks="freed" if is_free else "kept"
            )
        return ()

    async def adopt_locks(self, call: AdoptLocks, _: Peer) -> tuple[Owned, ...]:
        """The death of a process is recorded first: the caller may know of it before this daemon does."""
        if earlier := orphanedlocks.earlier_owners(self._locks.state, call.owner):
            await self._deaths.make_sure(earlier)
        self._locks.known.meet(call.owner)
        outcome = await self._locks.carry_out(lambda state: orphanedlocks.adopt(state, call.owner))
        if outcome.has_effect:
            _log.info("orphaned_locks.adopted", owner=call.owner, livelock=call.owner.livelock)
        return tuple(self._locks.held_by(call.owner).items())

    async def claim_locks(self, call: ClaimLocks, peer: Peer) -> tuple[Owner, ...]:
        claims = [claim for claim in call.claims if _is_dead(claim.owner)]
        claimed, now = {claim.owner for claim in claims}, time.time()
        outcome = await self._locks.carry_out(lambda state: orphanedlocks.claim_locks(state, claims, now))
        for made in outcome.made if outcome.has_effect else ():
            _log.warning(
                "locks.orphaned", owner=made.owner, by=peer, effect="its locks are kept, as another master knew"
            )
        for owner in outcome.refused:
            _log.error("claim.refused", owner=owner, effect="another owner holds its locks; its command may run still")
        may_run = self._locks.state.may_run
        # those whose locks were known, and whose deaths were not
        await self._deaths.make_sure(owner for owner, known in may_run if not known.is_orphaned and owner in claimed)
        return outcome.refused

    async def list_orphaned_locks(self, _: ListOrphanedLocks, __: Peer) -> tuple[OrphanedLocks, ...]:
        return self._locks.news.orphans()


def _is_dead(owner: Owner) -> bool:
    """Raises: Unavailable: it cannot be found out."""
    life = probe(owner.livelock)
    if life is Life.UNKNOWN:
        raise Unavailable(f"the livelock '{owner.livelock}' cannot be probed now; repeat the call")
    return life is Life.DEAD
