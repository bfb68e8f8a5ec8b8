"""What becomes of the locks of owners with guards: death, adoption, the word that ends a ghost.

All functions are pure. One that concerns several owners returns what it did to each; the last state counts.
What is delivered twice changes nothing the second time.

Source: `protocol.wconfd.locks`; DESIGN sections 13 and 14.
"""

from collections.abc import Collection, Iterable, Sequence

import attrs

from common.errors import AlreadyPending, Conflict
from common.locks import Lock, LockMode, LockRequest, Owner, mode_rank
from daemons.wconfd.core.locks.guards import Guarded
from daemons.wconfd.core.locks.waiting import LockChange, LockMove, LockState, Settling, free_all
from protocol.wconfd.locks import Claim, Ghost, Guard


@attrs.frozen
class Made:
    """An owner's change of the locks."""

    owner: Owner
    change: LockChange


@attrs.frozen
class OwnersChange:
    """What a call did to several owners."""

    state: LockState
    # in order
    made: tuple[Made, ...] = ()
    # owners of claims that were refused
    refused: tuple[Owner, ...] = ()
    # False: the state is the one before
    has_effect: bool = True


def guard(state: LockState, owner: Owner, guards: Sequence[Guard]) -> LockChange:
    """Add guards to an owner.

    Raises: Conflict: the owner holds no lock, so there is nothing that they could keep.
    """
    if not guards:
        return LockChange(state)
    if not state.table.modes_of(owner):
        raise Conflict(f"{owner} holds no lock that a guard could keep; take the locks first", owner=owner.to_wire())
    known = state.guards.of(owner) or Guarded(())
    return LockChange(state.with_guards(state.guards.set(state.table.as_known(owner), known.with_guards(guards))))


def bury(state: LockState, owners: Iterable[Owner], now: float) -> OwnersChange:
    """Free the dead; those that have guards become ghosts, and only their pending requests are dropped."""
    made: list[Made] = []
    for owner in owners:
        change = _die(state, owner, now) if owner in state.guards else free_all(state, owner)
        if change.state is not state:
            made.append(Made(owner, change))
            state = change.state
    return OwnersChange(state, tuple(made))


def lay(state: LockState, keys: Collection[str]) -> OwnersChange:
    """Take away these guards from all owners; a ghost without guards is freed."""
    made: list[Made] = []
    for owner, guarded in state.guards:
        left = guarded.without_keys(keys)
        if left == guarded.guards:
            continue
        if left:
            change = LockChange(state.with_guards(state.guards.set(owner, Guarded(left, guarded.since))))
        elif guarded.is_ghost:
            change = free_all(state, owner)
        else:
            change = LockChange(state.with_guards(state.guards.without(owner)))
        made.append(Made(owner, change))
        state = change.state
    return OwnersChange(state, tuple(made))


def expire(state: LockState, until: float) -> OwnersChange:
    """Free the ghosts whose deaths were at this instant or before it."""
    made: list[Made] = []
    for owner, guarded in state.guards:
        if guarded.since is not None and guarded.since <= until:
            change = free_all(state, owner)
            made.append(Made(owner, change))
            state = change.state
    return OwnersChange(state, tuple(made))


def earlier_owners(state: LockState, owner: Owner) -> list[Owner]:
    """The other owners of the same job that hold or wait and are no ghosts: living, or dead and not yet buried.

    Cost: O(owners).
    """
    known = (other for other in state.owners() if other.ident == owner.ident and other != owner)
    return sorted((other for other in known if other not in state.guards.ghosts), key=Owner.sort_key)


def adopt(state: LockState, owner: Owner) -> OwnersChange:
    """Give the owner all that the ghosts of its job hold, and their guards. Nothing is free in between.

    Raises:
        Conflict: an earlier owner of the job is no ghost.
        AlreadyPending: the owner has a pending request.
    """
    if others := earlier_owners(state, owner):
        raise Conflict(
            f"an earlier process of {owner} still has locks, with the livelock '{others[0].livelock}'; "
            "it must end before its locks can be adopted",
            owner=others[0].to_wire(),
        )
    ghosts = sorted((each for each in state.guards.ghosts if each.ident == owner.ident), key=Owner.sort_key)
    if not ghosts:
        return OwnersChange(state)
    if state.pending_of(owner):
        raise AlreadyPending(f"{owner} has a pending request; free its locks first", owner=owner.to_wire())
    moves = [_leave(state, ghost) for ghost in ghosts if ghost != owner]
    given = _strongest(state, owner, [ghost for ghost in ghosts if ghost != owner])
    table = state.table
    for move in moves:
        table = table.set_modes(move.owner, move.modes).table
    # no gate opens for others: what one owner has left another has entered
    after = state.with_table(table.set_modes(owner, given).table)
    after = _with_adopted_guards(after, owner, ghosts)
    return OwnersChange(
        after, (*(Made(move.owner, LockChange(after, moves=(move,))) for move in moves), _given(after, owner, given))
    )


def raise_ghosts(state: LockState, claims: Iterable[Claim], now: float) -> OwnersChange:
    """Make ghosts of dead owners that this state does not know, with the locks that they claim.

    A claim changes nothing if it names no lock or no guard, if all its keys are guarded already, and if its
    owner holds locks; such an owner gets the guards, though. It is refused if another owner is in the way.
    """
    made: list[Made] = []
    refused: list[Owner] = []
    for claim in claims:
        if not claim.locks or not claim.guards or state.guards.keys().issuperset(each.key for each in claim.guards):
            continue
        if state.table.blockers(claim.owner, [LockRequest(lock, mode) for lock, mode in claim.locks]):
            refused.append(claim.owner)
            continue
        change = _raise(state, claim, now)
        made.append(Made(claim.owner, change))
        state = change.state
    return OwnersChange(state, tuple(made), tuple(refused))


def ghosts_of(state: LockState, ghost_s: float) -> tuple[Ghost, ...]:
    """All ghosts, in owner order. Args: ghost_s: the seconds that a ghost is given; 0: no end."""
    return tuple(
        Ghost(
            owner=owner,
            since=guarded.since,
            ends_at=guarded.since + ghost_s if ghost_s else None,
            guards=guarded.guards,
            locks=tuple(state.table.held_by(owner).items()),
        )
        for owner, guarded in (state.guards if state.guards.ghosts else ())
        if guarded.since is not None
    )


def _die(state: LockState, owner: Owner, now: float) -> LockChange:
    guarded = state.guards.of(owner)
    assert guarded is not None
    since = now if guarded.since is None else guarded.since
    haunted = state.with_guards(state.guards.set(owner, Guarded(guarded.guards, since)))
    return Settling(haunted).drop_pending(owner).try_held_back().change()


def _raise(state: LockState, claim: Claim, now: float) -> LockChange:
    if state.table.modes_of(claim.owner):
        return guard(state, claim.owner, claim.guards)
    given = Settling(state).give(claim.owner, _strongest_of(claim.locks)).change()
    guarded = Guarded((), now).with_guards(claim.guards)
    haunted = given.state.with_guards(given.state.guards.set(claim.owner, guarded))
    settled = Settling(haunted).try_held_back().change()
    return LockChange(settled.state, granted=settled.granted, moves=given.moves + settled.moves)


def _leave(state: LockState, ghost: Owner) -> LockMove:
    return LockMove(ghost, dict.fromkeys(state.table.held_by(ghost)))


def _strongest(state: LockState, owner: Owner, ghosts: Iterable[Owner]) -> dict[Lock, LockMode]:
    """What the ghosts hold and the owner does not, or holds in a weaker mode."""
    held = state.table.modes_of(owner)
    modes = _strongest_of(item for ghost in ghosts for item in state.table.held_by(ghost).items())
    return {lock: mode for lock, mode in modes.items() if mode_rank(mode) > mode_rank(held.get(lock))}


def _strongest_of(owned: Iterable[tuple[Lock, LockMode]]) -> dict[Lock, LockMode]:
    modes: dict[Lock, LockMode] = {}
    for lock, mode in owned:
        if mode_rank(mode) > mode_rank(modes.get(lock)):
            modes[lock] = mode
    return modes


def _with_adopted_guards(state: LockState, owner: Owner, ghosts: Iterable[Owner]) -> LockState:
    known = state.guards.of(owner)
    adopted = Guarded(known.guards if known else ())
    guards = state.guards
    for ghost in ghosts:
        left = guards.of(ghost)
        assert left is not None
        adopted = adopted.with_guards(left.guards)
        guards = guards.without(ghost)
    return state.with_guards(guards.set(owner, adopted))


def _given(state: LockState, owner: Owner, given: dict[Lock, LockMode]) -> Made:
    return Made(owner, LockChange(state, moves=(LockMove(owner, given),) if given else ()))
