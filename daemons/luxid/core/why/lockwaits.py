"""Why a job's process waits for locks, out of what wconfd tells: each lock with its holders, and the chain behind them.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Iterator
from itertools import groupby

from common.ids import JobId
from common.locks import Owner
from common.queue.explanation import HeldByGhost, Holding, LetsPass, LockChain, LockWait, Reason, WaitsForLock
from protocol.wconfd.explain import InTheWay, OwnerWait, WaitExplanation


def lock_reasons(told: WaitExplanation) -> Iterator[Reason]:
    """The reasons in wconfd's explanation of one owner's wait; none if it does not wait."""
    if not told.waits:
        return
    own, *behind = told.waits
    for wait in _waits(own):
        yield WaitsForLock(wait.lock, wait.mode, wait.waiting_since, wait.holders, told.counting_since)
    if own.held_back_by:
        names, job_ids = _names(own.held_back_by), _job_ids(own.held_back_by)
        yield LetsPass(names, job_ids, own.waiting_since, told.counting_since)
    if behind:
        waits = tuple(wait for each in behind for wait in _waits(each))
        rings = tuple(map(_names, told.rings))
        yield LockChain(waits, _names(told.roots), _job_ids(told.roots), rings, told.counting_since)
    for ghost in told.ghosts:
        nodes = tuple(sorted({guard.node for guard in ghost.guards}))
        yield HeldByGhost(str(ghost.owner), _job_id(ghost.owner), nodes, ghost.since, ghost.ends_at)


def _waits(wait: OwnerWait) -> Iterator[LockWait]:
    """One for each lock that is asked for and not free, in lock order."""
    for (lock, mode), rows in groupby(wait.in_the_way, lambda row: (row.lock, row.mode)):
        holders = tuple(map(_holding, rows))
        yield LockWait(str(wait.owner), _job_id(wait.owner), lock, mode, wait.waiting_since, holders)


def _holding(row: InTheWay) -> Holding:
    return Holding(str(row.holder), _job_id(row.holder), row.held, row.held_mode, row.held_since)


def _job_id(owner: Owner) -> JobId | None:
    return JobId(owner.ident) if isinstance(owner.ident, int) else None


def _names(owners: tuple[Owner, ...]) -> tuple[str, ...]:
    return tuple(map(str, owners))


def _job_ids(owners: tuple[Owner, ...]) -> tuple[JobId, ...]:
    return tuple(job_id for owner in owners if (job_id := _job_id(owner)) is not None)
