"""Change one job: cancel it, reprioritize it, archive it.

Source: luxid.md 2.4-2.6.
"""

from common.errors import Conflict
from daemons.rapid.calls import Asked
from daemons.rapid.resources.parameters import job_id_of
from protocol.luxi import jobs as luxi
from protocol.rapid.jobactions import AutoArchived, AutoArchiveWish, CancelWish, Done, PriorityWish


class JobActions:
    """The calls that change one job; and the one that archives all old ones."""

    async def cancel_job(self, asked: Asked) -> Done:
        """Raises: Conflict: it cannot be cancelled any more. JobLost, Denied."""
        wish = asked.body if isinstance(asked.body, CancelWish) else CancelWish()
        return _done(await asked.daemons.luxid(luxi.CancelJob(job_id_of(asked), wish.kill)))

    async def change_priority(self, asked: Asked) -> Done:
        """Raises: Conflict: the job has ended, or is not there. InvalidRequest, Denied."""
        wish = asked.body_as(PriorityWish)
        return _done(await asked.daemons.luxid(luxi.ChangeJobPriority(job_id_of(asked), wish.priority)))

    async def archive_job(self, asked: Asked) -> Done:
        """Raises: Conflict: the job has not ended, or is not in the queue. Denied."""
        job_id = job_id_of(asked)
        return _done(archive_done(await asked.daemons.luxid(luxi.ArchiveJob(job_id)), job_id))

    async def archive_old(self, asked: Asked) -> AutoArchived:
        wish = asked.body_as(AutoArchiveWish)
        told = await asked.daemons.luxid(luxi.AutoArchiveJobs(wish.age, wish.timeout))
        return AutoArchived(told.archived_count, told.unchecked_count)


def archive_done(is_done: bool, job_id: int) -> luxi.Done:
    """luxid's reply to `ArchiveJob` in words."""
    if is_done:
        return luxi.Done(True, f"job {job_id} is archived")
    return luxi.Done(False, f"job {job_id} has not ended, or is not in the queue")


def _done(told: luxi.Done) -> Done:
    if not told.is_done:
        raise Conflict(told.message, done=False)
    return Done(told.message)
