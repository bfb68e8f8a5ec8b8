"""Guards and ghosts: each call is a function of the core, carried out by the store. The methods are ours.

Source: `protocol.wconfd.ghosts`; DESIGN sections 13 and 14.
"""

import time
from typing import Final

import attrs

from common.errors import Unavailable
from common.locks import Owner
from common.system.livelock import Life, probe
from common.system.log import get_log
from daemons.wconfd.core.locks import ghostrules
from daemons.wconfd.locks.deaths import Deaths
from daemons.wconfd.locks.lockstore import LockStore
from protocol.peer import Peer
from protocol.wconfd.ghosts import AdoptLocks, Ghost, GuardLocks, LayGuards, ListGhosts, RaiseGhosts
from protocol.wconfd.locks import Owned, Unit

_log: Final = get_log(__name__)


@attrs.frozen
class GhostHandlers:
    _locks: LockStore
    _deaths: Deaths

    async def guard_locks(self, call: GuardLocks, _: Peer) -> Unit:
        await self._locks.change(call.owner, lambda state: ghostrules.guard(state, call.owner, call.guards))
        return ()

    async def lay_guards(self, call: LayGuards, peer: Peer) -> Unit:
        keys = frozenset(call.keys)
        before = self._locks.state.guards.ghosts
        outcome = await self._locks.carry_out(lambda state: ghostrules.lay(state, keys))
        for made in outcome.made if outcome.has_effect else ():
            is_free = made.owner in before and made.owner not in outcome.state.guards
            _log.info("guards.laid", owner=made.owner, word=call.word, by=peer, locks="freed" if is_free else "kept")
        return ()

    async def adopt_locks(self, call: AdoptLocks, _: Peer) -> tuple[Owned, ...]:
        """A process that has just died is buried first: the caller may know of it before this daemon does."""
        if earlier := ghostrules.earlier_owners(self._locks.state, call.owner):
            await self._deaths.make_sure(earlier)
        self._locks.known.meet(call.owner)
        outcome = await self._locks.carry_out(lambda state: ghostrules.adopt(state, call.owner))
        if outcome.has_effect:
            _log.info("ghost.adopted", owner=call.owner, livelock=call.owner.livelock)
        return tuple(self._locks.held_by(call.owner).items())

    async def raise_ghosts(self, call: RaiseGhosts, peer: Peer) -> tuple[Owner, ...]:
        claims = [claim for claim in call.claims if _is_dead(claim.owner)]
        claimed, now = {claim.owner for claim in claims}, time.time()
        outcome = await self._locks.carry_out(lambda state: ghostrules.raise_ghosts(state, claims, now))
        for made in outcome.made if outcome.has_effect else ():
            _log.warning("ghost.raised", owner=made.owner, by=peer, effect="its locks are kept, as another master knew")
        for owner in outcome.refused:
            _log.error("ghost.refused", owner=owner, effect="another owner holds its locks; its command may run still")
        guards = self._locks.state.guards
        # those whose locks were known, and whose deaths were not
        await self._deaths.make_sure(owner for owner, guarded in guards if not guarded.is_ghost and owner in claimed)
        return outcome.refused

    async def list_ghosts(self, _: ListGhosts, __: Peer) -> tuple[Ghost, ...]:
        return self._locks.news.ghosts()


def _is_dead(owner: Owner) -> bool:
    """Raises: Unavailable: it cannot be found out."""
    life = probe(owner.livelock)
    if life is Life.UNKNOWN:
        raise Unavailable(f"the livelock '{owner.livelock}' cannot be probed now; repeat the call")
    return life is Life.DEAD
