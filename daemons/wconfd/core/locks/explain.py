"""The chain of waits from one owner to its ends, and since when locks are held.

Source: DESIGN section 6 ("Explain"); ours.
"""

from collections.abc import Callable, Iterable, Iterator

from common.locks import Lock, LockMode, LockRequest, Owner, conflicts
from daemons.wconfd.core.locks.orphanedlocks import orphans_of
from daemons.wconfd.core.locks.table import LockGate, gates_of
from daemons.wconfd.core.locks.waiting import LockState, PendingRequest, find_ring
from protocol.wconfd.locks import HeldSince, InTheWay, OwnerWait, WaitExplanation

# instants as the shell keeps them, in seconds since the epoch; None: before this daemon was started
SinceOfLock = Callable[[Owner, Lock], float | None]
WaitingSince = Callable[[Owner], float | None]


def explain_wait(
    state: LockState,
    owner: Owner,
    *,
    held_since: SinceOfLock,
    waiting_since: WaitingSince,
    counting_since: float,
    ghost_s: float = 0.0,
) -> WaitExplanation:
    """Tell why an owner waits: the owners in its way, what those wait for, and so on.

    Args:
        ghost_s: seconds that an orphan is given; 0: no end.
    Returns: no waits, and nothing in the way, if the owner has no pending request.
    Cost: O(waits that can be reached, and the holdings in their way).
    """
    waits: dict[Owner, OwnerWait] = {}
    roots: dict[Owner, None] = {}
    left = [owner]
    while left:
        waiter = left.pop(0)
        pending = state.pending_of(waiter)
        if pending is None:
            if waiter != owner:
                roots[state.table.as_known(waiter)] = None
        elif waiter not in waits:
            waits[waiter] = _wait(state, pending, held_since, waiting_since)
            left += _behind(waits[waiter])
    return WaitExplanation(
        waits=tuple(waits.values()),
        roots=tuple(roots),
        rings=tuple(_rings(waits)),
        counting_since=counting_since,
        ghosts=tuple(orphan for orphan in orphans_of(state, ghost_s) if orphan.owner in roots),
    )


def explain_holdings(state: LockState, owners: Iterable[Owner], *, held_since: SinceOfLock) -> tuple[HeldSince, ...]:
    """What owners hold, owner by owner as given, each in lock order. Cost: linear in the result."""
    return tuple(
        HeldSince(owner, lock, mode, held_since(owner, lock))
        for owner in dict.fromkeys(owners)
        for lock, mode in state.table.held_by(owner).items()
    )


def _wait(state: LockState, pending: PendingRequest, held_since: SinceOfLock, waiting_since: WaitingSince) -> OwnerWait:
    owner = pending.owner
    rows: dict[tuple[Lock, Owner, Lock], InTheWay] = {}
    for item in pending.requests:
        for gate in gates_of([item]):
            for other in state.table.wall(gate):
                if other != owner:
                    for lock, mode in _conflicting(state, other, gate):
                        rows[item.lock, other, lock] = _in_the_way(state, item, other, lock, mode, held_since)
    order = sorted(rows, key=lambda row: (row[0], row[1].sort_key(), row[2]))
    return OwnerWait(
        owner=owner,
        priority=pending.priority,
        asked=tuple(pending.requests),
        waiting_since=waiting_since(owner),
        in_the_way=tuple(rows[row] for row in order),
        held_back_by=tuple(state.ahead_of(owner, pending.requests)),
    )


def _conflicting(state: LockState, other: Owner, gate: LockGate) -> Iterator[tuple[Lock, LockMode]]:
    """The locks of `other` that keep a request out at this gate: the gate's lock, or members of it."""
    modes = state.table.modes_of(other)
    if not gate.is_at_members:
        yield gate.lock, modes[gate.lock]
        return
    for lock, mode in modes.items():
        if conflicts(lock, mode, gate.lock, gate.mode):
            yield lock, mode


def _in_the_way(
    state: LockState, item: LockRequest, other: Owner, lock: Lock, mode: LockMode, held_since: SinceOfLock
) -> InTheWay:
    assert item.mode is not None  # a release passes no gate
    return InTheWay(item.lock, item.mode, state.table.as_known(other), lock, mode, held_since(other, lock))


def _behind(wait: OwnerWait) -> list[Owner]:
    return list(dict.fromkeys([*(row.holder for row in wait.in_the_way), *wait.held_back_by]))


def _rings(waits: dict[Owner, OwnerWait]) -> Iterator[tuple[Owner, ...]]:
    """One ring for each set of owners that wait in one; begins with the first of them that was reached."""
    seen: set[Owner] = set()
    for owner in waits:
        if owner not in seen:
            ring = find_ring(owner, lambda one: _behind(waits[one]) if one in waits else [])
            seen.update(ring)
            if ring:
                yield ring
