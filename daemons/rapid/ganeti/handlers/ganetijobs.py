"""Jobs: list, read, wait, cancel.

Source: rapi.md 6.3.
"""

from common.errors import RemoteError
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core import fieldlists
from daemons.rapid.ganeti.core.reads import as_links, as_objects
from daemons.rapid.ganeti.core.waitbodies import Wait, reply_of, wait_of
from daemons.rapid.ganeti.handlers.asking import arguments_of, job_id_of, no_job
from daemons.rapid.ganeti.handlers.longlists import list_reply
from protocol.luxi.jobs import CancelJob
from protocol.luxi.queries import QueryJobs


class Jobs:
    async def list_jobs(self, asked: Asked) -> object:
        is_bulk = arguments_of(asked).flag("bulk")
        fields = fieldlists.JOBS if is_bulk else ("id",)
        rows = await asked.daemons.luxid(QueryJobs(None, fields))
        return await list_reply(
            len(rows), lambda: as_objects(fields, rows) if is_bulk else as_links("jobs", "id", rows)
        )

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


async def _archived(asked: Asked, wait: Wait) -> object:
    """The state of a job that luxid does not wait for."""
    [row] = await asked.daemons.luxid(QueryJobs((wait.job_id,), wait.archived_fields))
    reply = wait.reply_of_archived(row)
    if reply is None:
        raise no_job(wait.job_id)
    return reply
