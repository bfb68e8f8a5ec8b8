"""Submit jobs over HTTP.

Source: luxid.md 2.2; draft-ietf-httpapi-idempotency-key-header.
"""

import os
import time
from collections.abc import Sequence
from typing import Final

from common.errors import Conflict, JobLost
from common.ids import JobId
from common.queue.reasons import new_batch_id
from common.tracecontext import HEADER, trace_text
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, CallParameter, Given
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.joblists import fetch_job
from daemons.rapid.resources.parameters import text_of
from protocol.luxi import jobs as luxi
from protocol.rapid.jobs import Submitted, SubmittedJob

# as of luxid's keys
_LONGEST_KEY: Final = 200

KEY: Final = CallParameter(
    "Idempotency-Key",
    "key chosen by the client, unique for each submission: sent again within a day, it gets the same ids",
    {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY},
    place="header",
)


TRACE: Final = CallParameter(
    HEADER,
    "span that submits, as W3C's Trace Context writes it: it stays with the jobs; ignored if it is malformed",
    {"type": "string"},
    place="header",
)


async def submit_jobs(asked: Asked) -> Given:
    """Durability: the jobs in the reply are on disk.

    Raises: RequestRefused: there is no job in it. Conflict: none was taken. Else as luxid's `SubmitManyJobs`.
    """
    submission, key = asked.body_as(luxi.Submission), _key(asked)
    if not submission.jobs:
        raise RequestRefused(400, "jobs must have at least one job")
    batch_id = "" if submission.batch is None else submission.batch.id or new_batch_id(os.urandom(6))
    trace = trace_text(asked.http.headers.getlist(TRACE.name))
    wanted = submission.to_inputs(batch_id, time.time_ns(), trace)
    answers, is_earlier = await _send(asked, wanted, key)
    jobs = tuple(_result(answer) for answer in answers)
    first = next((job.id for job in jobs if job.id is not None), None)
    if first is None:
        raise Conflict(f"none of the {len(jobs)} jobs was taken; the first: {jobs[0].refused}", jobs=_told(jobs))
    if batch_id and is_earlier:
        batch_id = await _batch_of(asked, first)
    return _created(Submitted(jobs, is_earlier, batch_id), first)


async def _batch_of(asked: Asked, job_id: JobId) -> str:
    """The batch that was chosen for a job when it was submitted; "": the job was removed since."""
    try:
        return str((await fetch_job(asked.daemons, job_id, ("batch",)))["batch"])
    except JobLost:
        return ""


async def _send(
    asked: Asked, wanted: tuple[luxi.JobInput, ...], key: str | None
) -> tuple[Sequence[luxi.SubmitAnswer], bool]:
    """What became of each job, and whether they were submitted before; the refusal of a single job is the error."""
    if key is None:
        if len(wanted) == 1:
            return [luxi.Accepted(await asked.daemons.luxid(luxi.SubmitJob(wanted[0])))], False
        return await asked.daemons.luxid(luxi.SubmitManyJobs(wanted)), False
    told = await asked.daemons.luxid(luxi.SubmitOnce(wanted, key))
    if len(wanted) == 1 and isinstance(told.answers[0], luxi.Refused):
        # nothing was kept of it; asked alone, luxid tells the reason with its own code
        return [luxi.Accepted(await asked.daemons.luxid(luxi.SubmitJob(wanted[0], key)))], False
    return told.answers, told.is_earlier


def _key(asked: Asked) -> str | None:
    """Raises: RequestRefused: the key is empty."""
    text = text_of(asked, KEY)
    if text is None:
        return None
    # the draft has it in quotes
    key = text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text
    if not 0 < len(key) <= _LONGEST_KEY:
        raise RequestRefused(400, f"header {KEY.name} must have 1 to {_LONGEST_KEY} characters, got {len(key)}")
    return key


def _result(answer: luxi.SubmitAnswer) -> SubmittedJob:
    if isinstance(answer, luxi.Refused):
        return SubmittedJob(refused=answer.message)
    return SubmittedJob(answer.job_id)


def _told(jobs: tuple[SubmittedJob, ...]) -> list[dict[str, object]]:
    return [{"id": job.id, "refused": job.refused} for job in jobs]


def _created(submitted: Submitted, first: JobId) -> Given:
    return Given(submitted, 201, {"Location": f"/3/jobs/{first}"})


def rows() -> Sequence[Call]:
    """The call that submits."""
    return [
        Call(
            "POST",
            "/3/jobs",
            submit_jobs,
            "Submit one or several jobs.",
            tag="jobs",
            rights=(Right.JOBS_SUBMIT,),
            takes=luxi.Submission,
            gives=Submitted,
            status=201,
            errors=(409, 502),
            parameters=(KEY, TRACE),
            changes=True,
        )
    ]
