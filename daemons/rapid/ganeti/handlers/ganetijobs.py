"""Jobs: list, read, wait, cancel.

Source: rapi.md 6.3.
"""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from common.asciijson import ascii_json
from common.errors import RemoteError
from common.ids import JobId
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core import fieldlists
from daemons.rapid.ganeti.core.reads import as_links, as_objects
from daemons.rapid.ganeti.core.waitbodies import Wait, reply_of, wait_of
from daemons.rapid.ganeti.handlers.asking import arguments_of, job_id_of, no_job
from daemons.rapid.ganeti.handlers.longlists import list_reply
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryJobs, Rows

# number of jobs asked for at once: some milliseconds' work
_AT_ONCE: Final = 200


class Jobs:
    async def list_jobs(self, asked: Asked) -> object:
        """The jobs that are not archived: links to them, or with `bulk` their fields."""
        rows = await asked.daemons.luxid(QueryJobs(None, ("id",)))
        if not arguments_of(asked).flag("bulk"):
            return await list_reply(len(rows), lambda: as_links("jobs", "id", rows))
        job_ids = [JobId(int(str(job_id))) for (job_id,) in rows]
        return Response(await _all_of(asked, job_ids), media_type="application/json")

    async def read_job(self, asked: Asked) -> object:
        """A job, also an archived one. Raises: NotFound: there is none."""
        job_id = job_id_of(asked)
        rows = await asked.daemons.luxid(QueryJobs((job_id,), fieldlists.JOB))
        [job] = as_objects(fieldlists.JOB, rows)
        if job["status"] is None:
            raise no_job(job_id)
        return job

    async def wait_for_job(self, asked: Asked) -> object:
        """The present state of a job, when it is another one than the client knows, or the time is over.

        Raises: InvalidRequest: the body is malformed. NotFound: there is no such job.
        """
        wait = wait_of(job_id_of(asked), asked.body)
        try:
            return reply_of(await asked.daemons.luxid(wait.call()))
        except RemoteError as error:
            if error.code != "not_found":
                raise
        return await _archived(asked, wait)

    async def cancel_job(self, asked: Asked) -> object:
        """Whether the job is canceled, or will be, and a sentence about it."""
        done = await asked.daemons.luxid(CancelJob(job_id_of(asked)))
        return [done.is_done, done.message]


async def _all_of(asked: Asked, job_ids: Sequence[JobId]) -> bytes:
    """The fields of these jobs as JSON, asked for in parts, so that other clients are served in between."""
    parts: list[bytes] = []
    for start in range(0, len(job_ids), _AT_ONCE):
        rows = await _some_of(asked, tuple(job_ids[start : start + _AT_ONCE]))
        jobs = as_objects(fieldlists.JOBS, rows)
        # a job without a status is gone since its id was listed
        if found := [job for job in jobs if job["status"] is not None]:
            parts.append(ascii_json(found)[1:-1])
    return b"[" + b",".join(parts) + b"]\n"


async def _some_of(asked: Asked, job_ids: tuple[JobId, ...]) -> Rows:
    """The rows of these jobs; a job whose file cannot be read is left out, as luxid leaves it out of lists."""
    try:
        return await asked.daemons.luxid(QueryJobs(job_ids, fieldlists.JOBS))
    except RemoteError as error:
        if error.code != "unavailable":
            raise
    if len(job_ids) == 1:
        return ()
    middle = len(job_ids) // 2
    return (*await _some_of(asked, job_ids[:middle]), *await _some_of(asked, job_ids[middle:]))


async def _archived(asked: Asked, wait: Wait) -> object:
    """The state of a job that luxid does not wait for."""
    [row] = await asked.daemons.luxid(QueryJobs((wait.job_id,), wait.archived_fields))
    reply = wait.reply_of_archived(row)
    if reply is None:
        raise no_job(wait.job_id)
    return reply
