"""Locks as people read them: holders, waiters, processes that ended jobs left, and commands on nodes."""

from collections.abc import Iterable, Iterator, Sequence

from cli.connection import Luxid, ask_luxid, open_wconfd
from cli.context import command_line, job_program
from common.errors import GantryError
from common.ids import JobId
from common.locks import LockMode
from common.objects.kinds import QueryKind
from common.words.times import clock
from common.words.why import pids_in_words
from protocol.luxi.queries import JOB, LOCK_FIELDS, LockRow, Query, read_lock_view
from protocol.luxi.why import ReadLeftProcesses
from protocol.wconfd.locks import ListOrphanedLocks, OrphanedLocks, Owned

# The table of locks from luxid: who holds and who waits for each lock, and which jobs others wait for.
#
# Source: luxid.md 7.4.


def ask_lock_view(client: Luxid) -> tuple[LockRow, ...]:
    """Ask luxid, not wconfd: a user who may list jobs may also see their locks.

    Raises: as `protocol.luxi.queries.read_lock_view` and `Luxid.call`.
    """
    return read_lock_view(client.call(Query(QueryKind.LOCK, LOCK_FIELDS)))


# Processes that ended jobs left running under their locks, and how to end them.
#
# Source: DESIGN section 16, "A job is over when its command is over".


def left_processes(rows: Iterable[LockRow]) -> list[str]:
    """Return a sentence for each ended job whose background processes keep its locks; none if luxid cannot tell.

    Args: rows: lock rows of `read_lock_view`.
    """
    jobs = _owners(rows)
    if not jobs:
        return []
    try:
        found = ask_luxid(ReadLeftProcesses(tuple(jobs)))
    except (GantryError, OSError):
        return []
    return [_sentence(job_id, pids) for job_id, pids in zip(jobs, found, strict=True) if pids]


def _owners(rows: Iterable[LockRow]) -> list[JobId]:
    owners = {owner for row in rows for owner in row.owners}
    return sorted(JobId(int(owner.removeprefix(JOB))) for owner in owners if owner.startswith(JOB))


def _sentence(job_id: JobId, pids: Sequence[int]) -> str:
    end = command_line(job_program(), "cancel", "--kill", job_id)
    left = f"job/{job_id} has ended, but what it left running keeps its locks: pid {pids_in_words(pids)}"
    return f"{left}; end that with: {end}"


# Orphaned locks as people read them: locks kept for commands on nodes, whose jobs' processes are gone.
#
# Source: DESIGN section 14.


def known_orphans() -> tuple[OrphanedLocks, ...]:
    """All orphaned locks, for a command that tells them beside other things; none if wconfd does not tell this user."""
    try:
        with open_wconfd(is_patient=False) as client:
            return client.call(ListOrphanedLocks(), timeout_s=10.0)
    except (GantryError, OSError):
        return ()


def orphans_line(orphans: Sequence[OrphanedLocks]) -> str:
    """One line for `gantry status`; there are some."""
    nodes = ", ".join(sorted({command.node for orphan in orphans for command in orphan.commands}))
    oldest = clock(min(orphan.since for orphan in orphans))
    what = f"of {len(orphans)} dead owners since {oldest}, for commands on {nodes}"
    return f"orphaned locks: {what}; see 'gantry orphaned-locks'"


def orphan_sentences(orphans: Sequence[OrphanedLocks]) -> Iterator[str]:
    """For each dead owner a sentence for the reader of a table of locks."""
    for orphan in orphans:
        nodes = ", ".join(f"'{node}'" for node in sorted({command.node for command in orphan.commands}))
        by_time = "" if orphan.ends_at is None else f", it is {clock(orphan.ends_at)},"
        yield (
            f"{orphan.owner} has orphaned locks: its process is gone, and its command may still run on node {nodes}; "
            f"its locks are kept until the node answers{by_time} or an operator says: gantry fenced NODE"
        )


def owner_text(orphan: OrphanedLocks) -> str:
    """The number of a job, or another owner's name."""
    return str(orphan.owner.ident)


def locks_text(locks: tuple[Owned, ...]) -> str:
    """Locks in lock order; the mode is named if it is exclusive."""
    return ",".join(f"{lock}{'=exclusive' if mode is LockMode.EXCLUSIVE else ''}" for lock, mode in locks)


def as_json(orphan: OrphanedLocks) -> dict[str, object]:
    return {
        "job": orphan.owner.ident,
        "livelock": orphan.owner.livelock,
        "since": orphan.since,
        "ends_at": orphan.ends_at,
        "guards": [{"node": command.node, "key": command.key} for command in orphan.commands],
        "locks": {str(lock): mode.value for lock, mode in orphan.locks},
    }
