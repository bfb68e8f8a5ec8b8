"""Hold, release and modify jobs that have no process.

Source: DESIGN sections 15 and 16.
"""

from common.errors import Conflict
from daemons.rapid.calls import Asked
from daemons.rapid.resources.bulkactions import Verb, change_many, changing
from daemons.rapid.resources.filterwords import UNENDED
from daemons.rapid.resources.parameters import job_id_of
from protocol.luxi.jobs import ChangeJobs, JobChange
from protocol.rapid.jobactions import Done, ManyChanged
from protocol.rapid.jobchanges import HoldMany, HoldWish, ModifyMany, ReleaseMany, TermsWish


class TermChanges:
    """The calls that change the terms of jobs."""

    async def hold_job(self, asked: Asked) -> Done:
        """Raises: Conflict: it has a process, or has ended. JobLost, Denied."""
        wish = asked.body if isinstance(asked.body, HoldWish) else HoldWish()
        return await _change_one(asked, JobChange(hold=wish.why))

    async def release_job(self, asked: Asked) -> Done:
        """Raises: as `hold_job`."""
        return await _change_one(asked, JobChange(release=True))

    async def modify_job(self, asked: Asked) -> Done:
        """Raises: as `hold_job`. InvalidRequest: a term breaks a rule."""
        return await _change_one(asked, change_of(asked.body_as(TermsWish)))

    async def hold_many(self, asked: Asked) -> ManyChanged:
        wish = asked.body_as(HoldMany)
        return await change_many(asked.daemons, wish, Verb("hold", UNENDED, changing(JobChange(hold=wish.why))))

    async def release_many(self, asked: Asked) -> ManyChanged:
        wish = asked.body_as(ReleaseMany)
        return await change_many(asked.daemons, wish, Verb("release", UNENDED, changing(JobChange(release=True))))

    async def modify_many(self, asked: Asked) -> ManyChanged:
        wish = asked.body_as(ModifyMany)
        return await change_many(asked.daemons, wish, Verb("modify", UNENDED, changing(change_of(wish.change))))


def change_of(wish: TermsWish) -> JobChange:
    """The change as luxid takes it."""
    return JobChange(
        name=wish.name,
        labels=wish.labels,
        without_labels=wish.without_labels,
        begin_at=wish.begin_at,
        priority=wish.priority,
        uses=wish.uses,
        without_uses=wish.without_uses,
        timeout=wish.timeout,
        retries=wish.retries,
        at_most=wish.at_most,
        after=wish.after,
        without_after=wish.without_after,
    )


async def _change_one(asked: Asked, change: JobChange) -> Done:
    (told,) = await asked.daemons.luxid(ChangeJobs((job_id_of(asked),), change))
    if not told.is_done:
        raise Conflict(told.message, done=False)
    return Done(told.message)
