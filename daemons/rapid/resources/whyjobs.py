"""Why jobs do not run, what they waited for, what they left running.

Source: DESIGN section 6, "Explain".
"""

from collections.abc import Sequence

from common.errors import InvalidRequest, JobLost
from common.ids import JobId
from daemons.rapid.calls import Asked
from daemons.rapid.resources.joblists import fetch_job
from daemons.rapid.resources.parameters import job_id_of
from protocol.luxi.processes import ReadLeftProcesses
from protocol.luxi.why.explain import ExplainJobs
from protocol.luxi.why.waits import ReadJobWaits
from protocol.rapid.explanations import (
    Explanation,
    Explanations,
    JobIds,
    LeftProcesses,
    LeftProcessesOfJobs,
    Waits,
    WaitsOfJobs,
)
from protocol.rapid.jobs import PAGE_MOST


class WhyJobs:
    """The calls that explain."""

    async def explain_job(self, asked: Asked) -> Explanation:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (reasons,) = await asked.daemons.luxid(ExplainJobs((job_id,)))
        if reasons is None:
            await fetch_job(asked.daemons, job_id, ("status",))
        return Explanation(job_id, reasons)

    async def explain_jobs(self, asked: Asked) -> Explanations:
        ids = _ids(asked)
        told = await asked.daemons.luxid(ExplainJobs(ids))
        return Explanations(tuple(map(Explanation, ids, told)))

    async def read_waits(self, asked: Asked) -> Waits:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (spans,) = await asked.daemons.luxid(ReadJobWaits((job_id,)))
        if spans is None:
            raise JobLost(f"there is no job {job_id}, neither in the queue nor in the archive", job_id=job_id)
        return Waits(job_id, spans)

    async def read_waits_of_jobs(self, asked: Asked) -> WaitsOfJobs:
        ids = _ids(asked)
        told = await asked.daemons.luxid(ReadJobWaits(ids))
        return WaitsOfJobs(tuple(map(Waits, ids, told)))

    async def read_left_processes(self, asked: Asked) -> LeftProcesses:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (pids,) = await asked.daemons.luxid(ReadLeftProcesses((job_id,)))
        if not pids:
            await fetch_job(asked.daemons, job_id, ("status",))
        return LeftProcesses(job_id, pids)

    async def read_left_processes_of_jobs(self, asked: Asked) -> LeftProcessesOfJobs:
        ids = _ids(asked)
        told = await asked.daemons.luxid(ReadLeftProcesses(ids))
        return LeftProcessesOfJobs(tuple(map(LeftProcesses, ids, told)))


def _ids(asked: Asked) -> tuple[JobId, ...]:
    ids: Sequence[JobId] = asked.body_as(JobIds).ids
    if len(ids) > PAGE_MOST:
        raise InvalidRequest(f"ids: at most {PAGE_MOST} at once, got {len(ids)}")
    return tuple(ids)
