"""Locks as rows: the owners that hold each and wait for each; and jobs that others wait for.

A job that other jobs depend on is shown as a row `job/N`: it has no holder, and the jobs that wait for its
end are pending, with the states that they want in place of a mode. So the lock monitor tells for every
job that does not run what it waits for: `job/27491 - - success:job/34709,job/21459`.

Source: luxid.md 7.4; chained-jobs design; DESIGN section 11.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from common.ids import JobId
from common.locks import Lock, LockMode, Owner, mode_rank
from common.queue.jobs import Dependency, JobState
from daemons.luxid.core.query.engine import FieldKind, QueryField, Things
from protocol.luxi.queries import LockRow
from protocol.wconfd.locks import LocksStatus

# wanted by a dependency that names no states
_ANY_END: Final = (JobState.SUCCESS, JobState.ERROR)


@attrs.define
class _Users:
    """The owners that hold a lock, or ask for it."""

    every: set[Owner] = attrs.field(factory=set)
    exclusive: set[Owner] = attrs.field(factory=set)

    def add(self, owner: Owner, mode: LockMode) -> None:
        self.every.add(owner)
        if mode is LockMode.EXCLUSIVE:
            self.exclusive.add(owner)

    def exclude(self, owner: Owner, mode: LockMode) -> bool:
        """Whether the owner cannot have the lock in this mode beside the others. Cost: of at most two of them."""
        return any(other != owner for other in (self.every if mode is LockMode.EXCLUSIVE else self.exclusive))


def lock_rows(status: LocksStatus, waiting: Mapping[JobId, Iterable[tuple[JobId, Dependency]]]) -> list[LockRow]:
    """All rows of the lock monitor, locks by name, then jobs by id.

    Args:
        status: what wconfd knows.
        waiting: job id -> jobs that wait for its end, in order, and why.
    """
    owners = dict(status.held)
    pending: dict[Lock, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for owner, lock, mode in _waited_for(status):
        pending[lock].append((mode.value, (owner_name(owner),)))
    known = owners.keys() | pending.keys()
    every = known | {lock.group for lock in known if lock.group is not None}
    rows = [_lock_row(lock, owners.get(lock, ()), pending.get(lock, [])) for lock in every]
    return sorted(rows, key=lambda row: row.name) + [_job_row(job, waiting[job]) for job in sorted(waiting)]


def _waited_for(status: LocksStatus) -> Iterator[tuple[Owner, Lock, LockMode]]:
    """Of each pending request the locks that somebody else holds or asks for, in a mode that excludes its own.

    A request names all locks that its owner wants at once: `node/web1`, and with it a shared BGL that he would get at
    once. He waits for those that are taken only; if none is, as when a request before his is about to be granted, all
    are told.
    """
    direct: dict[Lock, _Users] = defaultdict(_Users)
    # lock of a group -> who uses a member of it
    members: dict[Lock, _Users] = defaultdict(_Users)
    uses = [(lock, owner, mode) for lock, holders in status.held for owner, mode in holders]
    uses += [
        (each.lock, pending.owner, each.mode) for pending in status.pending for each in pending.requests if each.mode
    ]
    for lock, owner, mode in uses:
        direct[lock].add(owner, mode)
        if lock.group is not None:
            members[lock.group].add(owner, mode)
    for pending in status.pending:
        asked = [(each.lock, each.mode) for each in pending.requests if each.mode]
        taken = [
            (lock, mode)
            for lock, mode in asked
            if any(
                users.exclude(pending.owner, mode)
                for users in (direct[lock], members[lock], direct[lock.group or lock])
            )
        ]
        for lock, mode in taken or asked:
            yield pending.owner, lock, mode


def owner_name(owner: Owner) -> str:
    """A job's number; of others their name in quotes."""
    return str(owner.ident) if isinstance(owner.ident, int) else json.dumps(owner.ident)


def _lock_row(
    lock: Lock, held: Sequence[tuple[Owner, LockMode]], pending: list[tuple[str, tuple[str, ...]]]
) -> LockRow:
    strongest = max((mode for _, mode in held), key=mode_rank, default=None)
    mode = strongest.value if strongest is not None else None
    return LockRow(str(lock), mode, tuple(owner_name(owner) for owner, _ in held), tuple(pending))


def _job_row(job_id: JobId, waiting: Iterable[tuple[JobId, Dependency]]) -> LockRow:
    """Those who want it in the same states are told together."""
    by_states: dict[str, list[str]] = {}
    for each, dependency in waiting:
        by_states.setdefault(_states(dependency), []).append(f"job/{each}")
    return LockRow(f"job/{job_id}", None, (), tuple((states, tuple(who)) for states, who in by_states.items()))


def _states(dependency: Dependency) -> str:
    """The wanted states, success first."""
    wanted = dependency.wanted or _ANY_END
    return ",".join(state.value for state in (*_ANY_END, JobState.CANCELED) if state in wanted)


def _pending_json(row: LockRow) -> list[list[object]]:
    return [[mode, list(owners)] for mode, owners in row.pending]


_Field = QueryField[LockRow]
LOCKS: Final[Things[LockRow]] = Things.of(
    "lock",
    (
        _Field("name", "Name", FieldKind.OTHER, "name of the lock", lambda row: row.name),
        _Field(
            "mode",
            "Mode",
            FieldKind.OTHER,
            "how it is held: shared, exclusive or not",
            lambda row: row.mode,
            comparable=lambda mode: mode or "",
        ),
        _Field("owner", "Owner", FieldKind.OTHER, "who holds it", lambda row: row.owners),
        _Field("pending", "Pending", FieldKind.OTHER, "who waits for it, and how it is wanted", _pending_json),
    ),
    name_field="name",
)
