"""Why a job's process waits for locks, out of what wconfd tells: each lock with its holders, and the chain behind them.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Iterator
from itertools import groupby

import attrs

from common.ids import JobId
from common.locks import Owner
from daemons.luxid.core.why.explain import Holding, Reason
from protocol.wconfd.explain import InTheWay, OwnerWait, WaitExplanation


@attrs.frozen
class WaitsForLock(Reason):
    """Its process asked for a lock that others keep it out of."""

    KIND = "lock"
    lock: str
    mode: str
    # seconds since the epoch; None: since before wconfd counts
    waiting_since: float | None
    # at least one; what is held is the lock itself, its group, or a member of it
    holders: tuple[Holding, ...]
    # what is older wconfd has seen at its start only
    counting_since: float


@attrs.frozen
class LetsPass(Reason):
    """Others wait for the same locks, were passed too often already, and go first."""

    KIND = "turn"
    owners: tuple[str, ...]
    job_ids: tuple[JobId, ...]
    # of the job's own wait
    waiting_since: float | None
    counting_since: float


@attrs.frozen
class LockWait:
    """A wait of the chain: one owner's for one lock."""

    owner: str
    job_id: JobId | None
    lock: str
    mode: str
    waiting_since: float | None
    holders: tuple[Holding, ...]


@attrs.frozen
class LockChain(Reason):
    """Who is in the way waits for locks, too."""

    KIND = "lock chain"
    # of those in the way, nearest first; not the job's own
    waits: tuple[LockWait, ...]
    # who really holds up all of them, as it waits for no lock
    roots: tuple[str, ...]
    root_job_ids: tuple[JobId, ...]
    # owners each of whom waits for the next, and the last for the first
    rings: tuple[tuple[str, ...], ...]
    counting_since: float


@attrs.frozen
class NotKnown(Reason):
    """What could not be found out, and why."""

    KIND = "unknown"
    what: str
    why: str


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


def _waits(wait: OwnerWait) -> Iterator[LockWait]:
    """One for each lock that is asked for and not free, in lock order."""
    for (lock, mode), rows in groupby(wait.in_the_way, lambda row: (row.lock, row.mode)):
        holders = tuple(map(_holding, rows))
        yield LockWait(str(wait.owner), _job_id(wait.owner), str(lock), mode.value, wait.waiting_since, holders)


def _holding(row: InTheWay) -> Holding:
    held, mode = str(row.held), row.held_mode.value
    return Holding(str(row.holder), _job_id(row.holder), held, mode, row.held_since)


def _job_id(owner: Owner) -> JobId | None:
    return JobId(owner.ident) if isinstance(owner.ident, int) else None


def _names(owners: tuple[Owner, ...]) -> tuple[str, ...]:
    return tuple(map(str, owners))


def _job_ids(owners: tuple[Owner, ...]) -> tuple[JobId, ...]:
    return tuple(job_id for owner in owners if (job_id := _job_id(owner)) is not None)
