"""Submit jobs over HTTP.

Source: luxid.md 2.2; draft-ietf-httpapi-idempotency-key-header.
"""

from typing import Final

from common.errors import Conflict
from common.ids import JobId
from daemons.rapid.calls import Asked, Given, Parameter
from daemons.rapid.refusals import Refused
from daemons.rapid.resources.parameters import text_of
from protocol.luxi import submission as luxi
from protocol.rapid.submission import Submission, Submitted, SubmittedJob

# as of luxid's keys
_LONGEST_KEY: Final = 200

KEY: Final = Parameter(
    "Idempotency-Key",
    "key chosen by the client, unique for each submission: sent again within a day, it gets the same ids",
    {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY},
    place="header",
)


class JobSubmission:
    """The call that submits."""

    async def submit_jobs(self, asked: Asked) -> Given:
        """Durability: the jobs in the reply are on disk.

        Raises: Refused: there is no job in it. Conflict: none was taken. Else as luxid's `SubmitManyJobs`.
        """
        submission, key = asked.body_as(Submission), _key(asked)
        if not submission.jobs:
            raise Refused(400, "jobs must have at least one job")
        if len(submission.jobs) == 1:
            # the reason of a refusal is the error, with its own code
            job_id = await asked.daemons.luxid(luxi.SubmitJob(submission.jobs[0].ops, key))
            return _created(Submitted((SubmittedJob(job_id),)), job_id)
        answers = await asked.daemons.luxid(luxi.SubmitManyJobs(tuple(job.ops for job in submission.jobs), key))
        jobs = tuple(_result(answer) for answer in answers)
        first = next((job.id for job in jobs if job.id is not None), None)
        if first is None:
            raise Conflict(f"none of the {len(jobs)} jobs was taken; the first: {jobs[0].refused}", jobs=_told(jobs))
        return _created(Submitted(jobs), first)


def _key(asked: Asked) -> str | None:
    """Raises: Refused: the key is empty."""
    text = text_of(asked, KEY)
    if text is None:
        return None
    # the draft has it in quotes
    key = text[1:-1] if len(text) >= 2 and text[0] == text[-1] == '"' else text
    if not 0 < len(key) <= _LONGEST_KEY:
        raise Refused(400, f"header {KEY.name} must have 1 to {_LONGEST_KEY} characters, got {len(key)}")
    return key


def _result(answer: luxi.SubmitAnswer) -> SubmittedJob:
    if isinstance(answer, luxi.Refused):
        return SubmittedJob(refused=answer.message)
    return SubmittedJob(answer.job_id)


def _told(jobs: tuple[SubmittedJob, ...]) -> list[dict[str, object]]:
    return [{"id": job.id, "refused": job.refused} for job in jobs]


def _created(submitted: Submitted, first: JobId) -> Given:
    return Given(submitted, 201, {"Location": f"/3/jobs/{first}"})
