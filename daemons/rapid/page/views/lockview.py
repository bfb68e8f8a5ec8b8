"""The locks: who holds each, since when, and who waits for it, in order; and the graph of these waits."""

from collections.abc import Iterator, Mapping, Sequence

import attrs

from common.queue.explanation import Holding, LetsPass, LockChain, LockWait, Reason, WaitsForJob, WaitsForLock
from common.words.times import duration
from daemons.rapid.page.drawing.lockgraph import Wait
from daemons.rapid.page.views.links import Piece, lock_href, owner_href
from protocol.luxi.locks import JOB, LockRow


@attrs.frozen
class Waiter:
    owner: Piece
    # mode, or the final states of a job
    wants: str


@attrs.frozen
class LockLine:
    name: Piece
    # "": nobody holds it
    mode: str
    holders: tuple[Piece, ...]
    # for how long the longest holder has it, as far as is known
    lasting: str
    # in the order in which they asked
    waiters: tuple[Waiter, ...]


def lock_lines(
    rows: Sequence[LockRow], reasons: Mapping[int, Sequence[Reason] | None], now: float
) -> tuple[LockLine, ...]:
    """Args: reasons: of the jobs that wait; from them it is known since when locks are held."""
    since = dict(_held_since(reasons))
    return tuple(_line(row, since, now) for row in rows)


def _line(row: LockRow, since: Mapping[tuple[str, str], float], now: float) -> LockLine:
    held = [at for owner in row.owners if (at := since.get((row.name, owner))) is not None]
    is_job = row.name.startswith(JOB)
    return LockLine(
        Piece(row.name, owner_href(row.name) if is_job else lock_href(row.name)),
        row.mode or "",
        tuple(Piece(owner, owner_href(owner)) for owner in row.owners),
        duration(now - min(held)) if held else "",
        tuple(Waiter(Piece(owner, owner_href(owner)), wants) for wants, owners in row.pending for owner in owners),
    )


def _held_since(reasons: Mapping[int, Sequence[Reason] | None]) -> Iterator[tuple[tuple[str, str], float]]:
    for told in reasons.values():
        for reason in told or ():
            for wait in (reason, *(reason.waits if isinstance(reason, LockChain) else ())):
                for held in wait.holders if isinstance(wait, WaitsForLock | LockWait) else ():
                    if held.since is not None:
                        yield (str(held.lock), held.owner), held.since


def waiting_jobs(rows: Sequence[LockRow]) -> tuple[int, ...]:
    """The jobs that wait in these rows, each once."""
    owners = [owner for row in rows for _, pending in row.pending for owner in pending if owner.startswith(JOB)]
    return tuple(int(owner.removeprefix(JOB)) for owner in dict.fromkeys(owners))


def rows_of_owner(rows: Sequence[LockRow], owner: str) -> tuple[LockRow, ...]:
    """The rows in which this owner holds or waits."""
    return tuple(row for row in rows if owner in row.owners or any(owner in owners for _, owners in row.pending))


def dependents(rows: Sequence[LockRow], job_id: int) -> tuple[Waiter, ...]:
    """The jobs that wait for the end of this one."""
    name = f"{JOB}{job_id}"
    row = next((row for row in rows if row.name == name), None)
    return () if row is None else _line(row, {}, 0.0).waiters


def waits(reasons: Mapping[int, Sequence[Reason] | None]) -> tuple[Wait, ...]:
    """Who waits for whom, from the reasons of jobs."""
    return tuple(wait for job_id, told in reasons.items() for reason in told or () for wait in _waits(job_id, reason))


def _waits(job_id: int, reason: Reason) -> Iterator[Wait]:
    waiter = f"{JOB}{job_id}"
    if isinstance(reason, WaitsForJob):
        yield Wait(waiter, f"{JOB}{reason.job_id}", "its end")
    elif isinstance(reason, WaitsForLock):
        yield from _for_lock(waiter, str(reason.lock), reason.holders)
    elif isinstance(reason, LetsPass):
        yield from (Wait(waiter, owner, "its turn") for owner in reason.owners)
    elif isinstance(reason, LockChain):
        for wait in reason.waits:
            yield from _for_lock(wait.owner, str(wait.lock), wait.holders)


def _for_lock(waiter: str, lock: str, holders: Sequence[Holding]) -> Iterator[Wait]:
    return (Wait(waiter, held.owner, lock) for held in holders)
