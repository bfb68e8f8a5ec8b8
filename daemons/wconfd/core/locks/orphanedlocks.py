"""What becomes of the locks of owners whose commands may still run: death, adoption, the word that releases them.

All functions are pure. One that concerns several owners returns what it did to each; the last state counts.
What is delivered twice changes nothing the second time.

Source: `protocol.wconfd.locks`; DESIGN sections 13 and 14.
"""

from collections.abc import Collection, Iterable, Sequence

import attrs

from common.errors import AlreadyPending, Conflict
from common.locks import Lock, LockMode, LockRequest, Owner, mode_rank
from daemons.wconfd.core.locks.mayrun import OwnersCommands
from daemons.wconfd.core.locks.waiting import LockChange, LockMove, LockState, Settling, free_all
from protocol.wconfd.locks import Claim, CommandOnNode, OrphanedLocks


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


def keep_for(state: LockState, owner: Owner, commands: Sequence[CommandOnNode]) -> LockChange:
    """Keep the owner's locks as long as these commands may still run.

    Raises: Conflict: the owner holds no lock, so there is nothing that they could keep.
    """
    if not commands:
        return LockChange(state)
    if not state.table.modes_of(owner):
        raise Conflict(f"{owner} holds no lock that a command could keep; take the locks first", owner=owner.to_wire())
    known = state.may_run.of(owner) or OwnersCommands(())
    return LockChange(state.with_may_run(state.may_run.set(state.table.as_known(owner), known.with_commands(commands))))


def release_dead(state: LockState, owners: Iterable[Owner], now: float) -> OwnersChange:
    """Release the locks of the dead; those whose commands may still run become orphans, and only stop waiting."""
    made: list[Made] = []
    for owner in owners:
        change = _die(state, owner, now) if owner in state.may_run else free_all(state, owner)
        if change.state is not state:
            made.append(Made(owner, change))
            state = change.state
    return OwnersChange(state, tuple(made))


def release(state: LockState, keys: Collection[str]) -> OwnersChange:
    """Nothing of these keys runs any more: release the orphaned locks for which no other command may still run."""
    made: list[Made] = []
    for owner, known in state.may_run:
        left = known.without_keys(keys)
        if left == known.commands:
            continue
        if left:
            change = LockChange(state.with_may_run(state.may_run.set(owner, OwnersCommands(left, known.since))))
        elif known.is_orphaned:
            change = free_all(state, owner)
        else:
            change = LockChange(state.with_may_run(state.may_run.without(owner)))
        made.append(Made(owner, change))
        state = change.state
    return OwnersChange(state, tuple(made))


def expire(state: LockState, until: float) -> OwnersChange:
    """Release the locks of the orphans whose deaths were at this instant or before it."""
    made: list[Made] = []
    for owner, known in state.may_run:
        if known.since is not None and known.since <= until:
            change = free_all(state, owner)
            made.append(Made(owner, change))
            state = change.state
    return OwnersChange(state, tuple(made))


def earlier_owners(state: LockState, owner: Owner) -> list[Owner]:
    """The other owners of the same job that hold or wait and are no orphans: living, or dead and not yet known to be.

    Cost: O(owners).
    """
    known = (other for other in state.owners() if other.ident == owner.ident and other != owner)
    return sorted((other for other in known if other not in state.may_run.orphans), key=Owner.sort_key)


def adopt(state: LockState, owner: Owner) -> OwnersChange:
    """Give the owner all that the orphans of its job hold, and their commands. Nothing is free in between.

    Raises:
        Conflict: an earlier owner of the job is no orphan.
        AlreadyPending: the owner has a pending request.
    """
    if others := earlier_owners(state, owner):
        raise Conflict(
            f"an earlier process of {owner} still has locks, with the livelock '{others[0].livelock}'; "
            "it must end before its locks can be adopted",
            owner=others[0].to_wire(),
        )
    orphans = sorted((each for each in state.may_run.orphans if each.ident == owner.ident), key=Owner.sort_key)
    if not orphans:
        return OwnersChange(state)
    if state.pending_of(owner):
        raise AlreadyPending(f"{owner} has a pending request; free its locks first", owner=owner.to_wire())
    moves = [_leave(state, orphan) for orphan in orphans if orphan != owner]
    given = _strongest(state, owner, [orphan for orphan in orphans if orphan != owner])
    table = state.table
    for move in moves:
        table = table.set_modes(move.owner, move.modes)
    # no gate opens for others: what one owner has left another has entered
    after = state.with_table(table.set_modes(owner, given))
    after = _with_adopted_commands(after, owner, orphans)
    return OwnersChange(
        after, (*(Made(move.owner, LockChange(after, moves=(move,))) for move in moves), _given(after, owner, given))
    )


def claim_locks(state: LockState, claims: Iterable[Claim], now: float) -> OwnersChange:
    """Make orphans of dead owners that this state does not know, with the locks that they claim.

    A claim changes nothing if it names no lock or no command, if all its keys are known already, and if its
    owner holds locks; such an owner gets the commands, though. It is refused if another owner is in the way.
    """
    made: list[Made] = []
    refused: list[Owner] = []
    for claim in claims:
        if (
            not claim.locks
            or not claim.commands
            or state.may_run.keys().issuperset(each.key for each in claim.commands)
        ):
            continue
        if state.table.blockers(claim.owner, [LockRequest(lock, mode) for lock, mode in claim.locks]):
            refused.append(claim.owner)
            continue
        change = _claim(state, claim, now)
        made.append(Made(claim.owner, change))
        state = change.state
    return OwnersChange(state, tuple(made), tuple(refused))


def orphans_of(state: LockState, ghost_s: float) -> tuple[OrphanedLocks, ...]:
    """All orphans, in owner order. Args: ghost_s: the seconds that an orphan is given; 0: no end."""
    return tuple(
        OrphanedLocks(
            owner=owner,
            since=known.since,
            ends_at=known.since + ghost_s if ghost_s else None,
            commands=known.commands,
            locks=tuple(state.table.held_by(owner).items()),
        )
        for owner, known in (state.may_run if state.may_run.orphans else ())
        if known.since is not None
    )


def _die(state: LockState, owner: Owner, now: float) -> LockChange:
    known = state.may_run.of(owner)
    assert known is not None
    since = now if known.since is None else known.since
    orphaned = state.with_may_run(state.may_run.set(owner, OwnersCommands(known.commands, since)))
    return Settling(orphaned).drop_pending(owner).try_held_back().change()


def _claim(state: LockState, claim: Claim, now: float) -> LockChange:
    if state.table.modes_of(claim.owner):
        return keep_for(state, claim.owner, claim.commands)
    given = Settling(state).give(claim.owner, _strongest_of(claim.locks)).change()
    known = OwnersCommands((), now).with_commands(claim.commands)
    orphaned = given.state.with_may_run(given.state.may_run.set(claim.owner, known))
    settled = Settling(orphaned).try_held_back().change()
    return LockChange(settled.state, granted=settled.granted, moves=given.moves + settled.moves)


def _leave(state: LockState, orphan: Owner) -> LockMove:
    return LockMove(orphan, dict.fromkeys(state.table.held_by(orphan)))


def _strongest(state: LockState, owner: Owner, orphans: Iterable[Owner]) -> dict[Lock, LockMode]:
    """What the orphans hold and the owner does not, or holds in a weaker mode."""
    held = state.table.modes_of(owner)
    modes = _strongest_of(item for orphan in orphans for item in state.table.held_by(orphan).items())
    return {lock: mode for lock, mode in modes.items() if mode_rank(mode) > mode_rank(held.get(lock))}


def _strongest_of(owned: Iterable[tuple[Lock, LockMode]]) -> dict[Lock, LockMode]:
    modes: dict[Lock, LockMode] = {}
    for lock, mode in owned:
        if mode_rank(mode) > mode_rank(modes.get(lock)):
            modes[lock] = mode
    return modes


def _with_adopted_commands(state: LockState, owner: Owner, orphans: Iterable[Owner]) -> LockState:
    known = state.may_run.of(owner)
    adopted = OwnersCommands(known.commands if known else ())
    commands = state.may_run
    for orphan in orphans:
        left = commands.of(orphan)
        assert left is not None
        adopted = adopted.with_commands(left.commands)
        commands = commands.without(orphan)
    return state.with_may_run(commands.set(owner, adopted))


def _given(state: LockState, owner: Owner, given: dict[Lock, LockMode]) -> Made:
    return Made(owner, LockChange(state, moves=(LockMove(owner, given),) if given else ()))
