"""Processes that ended jobs left running under their locks, and how to end them.

Source: DESIGN section 16, "A job is over when its command is over".
"""

from collections.abc import Iterable, Sequence

from cli.connection import ask_luxid
from cli.context import command_line, job_program
from common.errors import GantryError
from common.ids import JobId
from common.words.why.reasons import pids_in_words
from protocol.luxi.locks import JOB, LockRow
from protocol.luxi.processes import ReadLeftProcesses


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
