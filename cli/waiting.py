"""What jobs wait for, in a few words each: other jobs, locks and who holds them, or what else luxid tells."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.connection import ask_luxid, ask_wconfd
from cli.fields import Row
from cli.lockview import LockView, read_lock_view
from cli.query import FINISHED, jobs_now
from common.errors import GantryError
from common.locks import JobId
from protocol.luxi import ExplainJobs
from protocol.wconfd import ListLocksWaitingStatus


def why_waiting(job_ids: Sequence[int]) -> Mapping[int, str]:
    """The reasons that can be seen from outside; a job without one is left out.

    Never raises for a daemon that is away: then there are no reasons.
    """
    try:
        rows = jobs_now(job_ids, ("id", "status", "ops", "opstatus"))
        awaited = sorted({job_id for row in rows for job_id in _dependencies(row)})
        unfinished = _unfinished(awaited)
    except (GantryError, OSError):
        return {}
    view = _lock_view()
    reasons = ((row["id"], _reason(row, unfinished, view)) for row in rows if row["status"] not in FINISHED)
    found = {job_id: reason for job_id, reason in reasons if reason}
    return {**_told_by_luxid([row["id"] for row in rows if row["id"] not in found]), **found}


def _told_by_luxid(job_ids: Sequence[int]) -> Mapping[int, str]:
    """The first reason of each job that will not be gone in a moment."""
    if not job_ids:
        return {}
    # imported late: most jobs that wait are held by others
    from cli.reasonwords import in_words, worth_telling

    try:
        answers = ask_luxid(ExplainJobs(tuple(map(JobId, job_ids))))
    except (GantryError, OSError):
        return {}
    lasting = ([reason for reason in worth_telling(reasons or ()) if reason["kind"] != "moment"] for reasons in answers)
    return {job_id: in_words(reasons[0]) for job_id, reasons in zip(job_ids, lasting, strict=True) if reasons}


def _lock_view() -> LockView:
    try:
        return read_lock_view(ask_wconfd(ListLocksWaitingStatus()))
    except (GantryError, OSError):
        return LockView(())


def _unfinished(job_ids: Sequence[int]) -> frozenset[int]:
    rows = jobs_now(job_ids, ("id", "status")) if job_ids else []
    return frozenset(row["id"] for row in rows if row["status"] not in FINISHED)


def _dependencies(row: Row) -> Iterator[int]:
    """The jobs that the job's next opcode depends on."""
    for op, status in zip(row["ops"] or (), row["opstatus"] or (), strict=False):
        if status not in FINISHED:
            yield from (dependency[0] for dependency in op.get("depends") or ())
            return


def _reason(row: Row, unfinished: frozenset[int], view: LockView) -> str:
    jobs = [job_id for job_id in _dependencies(row) if job_id in unfinished]
    if jobs:
        return f"waits for {_jobs(jobs)} to end"
    locks: list[Any] = list(view.waits_for(f"job/{row['id']}"))
    parts = [f"{lock} ({mode.value}), held by {', '.join(map(str, holders))}" for lock, mode, holders in locks]
    return f"waits for {'; '.join(parts)}" if parts else ""


def _jobs(job_ids: Sequence[int]) -> str:
    return ", ".join(f"job/{job_id}" for job_id in dict.fromkeys(job_ids))
