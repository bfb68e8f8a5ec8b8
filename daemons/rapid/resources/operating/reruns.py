"""Jobs that run again, over HTTP; the rules are those of `gnt-job rerun`.

Source: DESIGN sections 15 and 16; `common.queue.reruns`.
"""

import os
import time
from collections.abc import Sequence
from typing import Final, cast

from common.errors import NotFound
from common.ids import JobId
from common.queue.reruns import OldJob, Successor, batches_of, chosen, outside, successors
from common.words.fields import Row
from common.words.outcome import no_such_job
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.resources.bulkactions import check_expected, chosen_jobs, ticket_for
from daemons.rapid.resources.filterwords import ENDED
from daemons.rapid.resources.parameters import job_id_of
from protocol.luxi.queries import QueryJobs
from protocol.luxi.submission import Refused, SubmitAnswer, SubmitJob, SubmitManyJobs
from protocol.rapid.reruns import ManyRerun, Rerun, RerunMany

_FIELDS: Final = ("id", "status", "ops", "opexec")


class Reruns:
    """The calls that submit jobs again."""

    async def rerun_job(self, asked: Asked) -> Rerun:
        """Raises: NotFound. Conflict: it has not ended. Denied: what it runs is not told to the caller."""
        job_id = job_id_of(asked)
        (made,) = await _made(asked.daemons, chosen(await _read(asked.daemons, [job_id]), failed_only=False))
        new_id = await asked.daemons.luxid(SubmitJob(tuple(made.ops)))
        return Rerun(job_id, new_id)

    async def rerun_many(self, asked: Asked) -> ManyRerun:
        """Raises: as `rerun_job` and as `chosen_jobs`; then none runs again."""
        wish, daemons = asked.body_as(RerunMany), asked.daemons
        old = chosen(await _read(daemons, await chosen_jobs(daemons, wish, ENDED)), failed_only=wish.failed_only)
        ids = tuple(JobId(job.job_id) for job in old)
        ticket = ticket_for("rerun", ids)
        made = await _made(daemons, old)
        if wish.dry_run:
            return ManyRerun(True, len(ids), ids, ticket)
        check_expected(wish, ids, ticket)
        answers = await daemons.luxid(SubmitManyJobs(tuple(tuple(each.ops) for each in made))) if made else ()
        results = tuple(_result(job_id, answer) for job_id, answer in zip(ids, answers, strict=True))
        return ManyRerun(False, len(ids), ids, ticket, results)


def _result(job_id: JobId, answer: SubmitAnswer) -> Rerun:
    return Rerun(job_id, refused=answer.message) if isinstance(answer, Refused) else Rerun(job_id, answer.job_id)


async def _made(daemons: Daemons, jobs: Sequence[OldJob]) -> list[Successor]:
    """Raises: as `successors`."""
    ids = tuple(map(JobId, outside(jobs)))
    rows = await _rows(daemons, ids, ("id", "status"))
    states = {row["id"]: row["status"] for row in rows if row["status"] is not None}
    new_ids = {old: "b" + os.urandom(6).hex()[1:] for old in batches_of(jobs)}
    return successors(jobs, states, new_ids, time.time_ns())


async def _read(daemons: Daemons, job_ids: Sequence[JobId]) -> list[OldJob]:
    """Raises: NotFound: one of them does not exist."""
    return [_old_job(row) for row in await _rows(daemons, job_ids, _FIELDS)]


async def _rows(daemons: Daemons, job_ids: Sequence[JobId], fields: tuple[str, ...]) -> list[Row]:
    if not job_ids:
        return []
    found = await daemons.luxid(QueryJobs(tuple(job_ids), fields))
    return [cast(Row, dict(zip(fields, values, strict=True))) for values in found]


def _old_job(row: Row) -> OldJob:
    """Raises: NotFound."""
    if row["status"] is None:
        raise NotFound(no_such_job(row["id"]))
    return OldJob(row["id"], row["status"], row["ops"] or (), [stamp is not None for stamp in row["opexec"] or ()])
