"""Processes that ended jobs left running under their locks, and how to be rid of them.

Source: DESIGN section 16, "A job is over when its command is over".
"""

from collections.abc import Iterable

from cli.connection import ask_luxid
from cli.context import command_line, job_program
from cli.lockview import LockRow, read_lock_view
from cli.reasonwords import PIDS_NAMED
from common.errors import GantryError
from common.locks import JobId
from protocol.luxi import ReadLeftProcesses


def left_processes(locks: object) -> list[str]:
    """A sentence for each job that has ended and whose locks are kept by what it left; none if luxid cannot tell.

    Args:
        locks: as wconfd tells them, `listLocksWaitingStatus`.
    """
    jobs = _owners(read_lock_view(locks).rows)
    if not jobs:
        return []
    try:
        found = ask_luxid(ReadLeftProcesses(tuple(jobs)))
    except (GantryError, OSError):
        return []
    return [_sentence(job_id, pids) for job_id, pids in zip(jobs, found, strict=True) if pids]


def _owners(rows: Iterable[LockRow]) -> list[JobId]:
    owners = {owner.ident for row in rows for owner, _ in row.owners}
    return sorted(JobId(ident) for ident in owners if isinstance(ident, int))


def _sentence(job_id: JobId, pids: list[int]) -> str:
    named = ", ".join(map(str, pids[:PIDS_NAMED]))
    more = f" and {len(pids) - PIDS_NAMED} more" if len(pids) > PIDS_NAMED else ""
    end = command_line(job_program(), "cancel", "--kill", job_id)
    return f"job/{job_id} has ended, but what it left running keeps its locks: pid {named}{more}; end that with: {end}"
