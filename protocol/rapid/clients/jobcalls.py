"""The calls about jobs.

Source: DESIGN section 15.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import attrs
import orjson

from common.ids import JobId
from common.shapes import AS_IT_COMES
from protocol.luxi.output import JobOutput, OutputStream
from protocol.rapid.clients.httpcall import HttpCall, get, post
from protocol.rapid.explanations import Explanation, Explanations, JobIds, LeftProcessesOfJobs, WaitsOfJobs
from protocol.rapid.following import FollowWish
from protocol.rapid.jobactions import (
    ArchiveMany,
    AutoArchived,
    AutoArchiveWish,
    CancelMany,
    CancelWish,
    Done,
    ManyChanged,
    PrioritizeMany,
    PriorityWish,
)
from protocol.rapid.jobs import LIST_FIELDS, Job, JobChange, JobPage, JobQuery, LogLine
from protocol.rapid.submission import NewJob, OpInput, Submission, Submitted

KEY_HEADER: Final = "Idempotency-Key"


@attrs.frozen
class BareJobs:
    """A page of jobs as JSON objects, for programs that convert them."""

    jobs: Annotated[list[Mapping[str, object]], AS_IT_COMES]
    next: str | None = None
    notes: tuple[str, ...] = ()


@attrs.frozen
class BareChange:
    """A job after a wait, as a JSON object."""

    job: Mapping[str, object]
    log: tuple[LogLine, ...]


def new_key() -> str:
    """A key for a submission: no other has it."""
    return os.urandom(16).hex()


def submit_jobs(jobs: Sequence[Sequence[OpInput]], key: str) -> HttpCall[Submitted]:
    """Args: key: sent again with it, the same submission gets the same ids."""
    body = Submission(tuple(NewJob(tuple(ops)) for ops in jobs))
    return attrs.evolve(post("/3/jobs", Submitted, body, is_repeatable=True), headers={KEY_HEADER: key})


def query_jobs(query: JobQuery) -> HttpCall[JobPage]:
    return post("/3/jobs/query", JobPage, query, is_repeatable=True)


def query_bare_jobs(query: JobQuery) -> HttpCall[BareJobs]:
    return post("/3/jobs/query", BareJobs, query, is_repeatable=True)


def get_job(job_id: int, fields: Sequence[str] = ()) -> HttpCall[Job]:
    return get(_of(job_id), Job, fields=tuple(fields))


def wait_until(
    job_id: int, states: Sequence[str], timeout_s: float, fields: Sequence[str] = LIST_FIELDS
) -> HttpCall[JobChange]:
    """Wait until the job is in one of these states, or the time is over. Args: states: may have "final"."""
    return get(
        _of(job_id, "wait"),
        JobChange,
        waits_s=timeout_s,
        until=tuple(states),
        timeout=f"{timeout_s:g}",
        fields=tuple(fields),
    )


def wait_for_change(
    job_id: int, fields: Sequence[str], known: Mapping[str, object] | None, serial: int, timeout_s: float
) -> HttpCall[BareChange]:
    """Wait until the job differs from what is known of it, or has later log lines; without `known` returns at once."""
    previous = None if known is None else orjson.dumps(known).decode()
    return get(
        _of(job_id, "wait"),
        BareChange,
        waits_s=timeout_s,
        fields=tuple(fields),
        previous=previous,
        serial=serial or None,
        timeout=f"{timeout_s:g}",
    )


def read_output(
    job_id: int, offset: int, timeout_s: float, stream: OutputStream, of_try: int | None = None
) -> HttpCall[JobOutput]:
    """A piece of output from an offset on; waits for one if there is none.

    Args: of_try: number of the only try of which it is wanted; None: all.
    """
    return get(
        _of(job_id, "output/piece"),
        JobOutput,
        waits_s=timeout_s,
        offset=offset or None,
        timeout=f"{timeout_s:g}",
        stream=stream.value,
        **{"try": of_try},
    )


def explain_job(job_id: int) -> HttpCall[Explanation]:
    return get(_of(job_id, "why"), Explanation)


def explain_jobs(job_ids: Sequence[int]) -> HttpCall[Explanations]:
    return post("/3/jobs/why", Explanations, _ids(job_ids), is_repeatable=True)


def read_waits(job_ids: Sequence[int]) -> HttpCall[WaitsOfJobs]:
    return post("/3/jobs/waits", WaitsOfJobs, _ids(job_ids), is_repeatable=True)


def read_left_processes(job_ids: Sequence[int]) -> HttpCall[LeftProcessesOfJobs]:
    return post("/3/jobs/processes", LeftProcessesOfJobs, _ids(job_ids), is_repeatable=True)


def cancel_job(job_id: int, *, kill: bool) -> HttpCall[Done]:
    return post(_of(job_id, "cancel"), Done, CancelWish(kill))


def change_priority(job_id: int, priority: int) -> HttpCall[Done]:
    return post(_of(job_id, "priority"), Done, PriorityWish(priority))


def archive_job(job_id: int) -> HttpCall[Done]:
    return post(_of(job_id, "archive"), Done)


def archive_old(age_s: int, timeout_s: int) -> HttpCall[AutoArchived]:
    call = post("/3/jobs/autoarchive", AutoArchived, AutoArchiveWish(age_s, timeout_s))
    return attrs.evolve(call, waits_s=float(timeout_s))


def cancel_many(wish: CancelMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/cancel", wish)


def prioritize_many(wish: PrioritizeMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/priority", wish)


def archive_many(wish: ArchiveMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/archive", wish)


def follow_jobs(wish: FollowWish) -> HttpCall[None]:
    """The stream of the events of some jobs; it is read by `stream` of a client."""
    return post("/3/jobs/follow", type(None), wish, is_repeatable=True)


def _many(path: str, wish: CancelMany | PrioritizeMany | ArchiveMany) -> HttpCall[ManyChanged]:
    return post(path, ManyChanged, wish, is_repeatable=wish.dry_run)


def _of(job_id: int, part: str = "") -> str:
    return f"/3/jobs/{int(job_id)}/{part}" if part else f"/3/jobs/{int(job_id)}"


def _ids(job_ids: Sequence[int]) -> JobIds:
    return JobIds(tuple(map(JobId, job_ids)))
