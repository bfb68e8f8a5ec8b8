"""Telling of jobs.

Source: luxid.md 2.2, 7.3.
"""

from collections.abc import Sequence
from typing import Any, Final

import orjson
import trio

from common.asciijson import ascii_json
from common.jobs import Job
from common.locks import JobId
from daemons.luxid.core.fields import Field, JobView, missing_row, row_of, select_fields
from daemons.luxid.scheduler import Scheduler
from protocol.luxi import QueryJobs
from protocol.peer import Peer

# rows made in one go, before others have their turn
_BATCH: Final = 500


class Queries:
    """The methods that tell of jobs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def query_jobs(self, call: QueryJobs, peer: Peer) -> orjson.Fragment:
        """The rows as JSON text: they are many, and encoded once."""
        fields = select_fields(call.fields)
        table = self._scheduler.table
        job_ids: Sequence[JobId] = list(dict.fromkeys(call.job_ids)) if call.job_ids else table.ids()
        pieces: list[bytes] = []
        for start in range(0, len(job_ids), _BATCH):
            batch = job_ids[start : start + _BATCH]
            jobs = await table.get_many(batch)
            rows = [self._row(job_id, job, fields, call) for job_id, job in zip(batch, jobs, strict=True)]
            # none: archived since the ids were listed
            if present := [row for row in rows if row is not None]:
                pieces.append(ascii_json(present)[1:-1])
            await trio.lowlevel.checkpoint()
        return orjson.Fragment(b"[" + b",".join(pieces) + b"]")

    def _row(self, job_id: JobId, job: Job | None, fields: Sequence[Field], call: QueryJobs) -> list[Any] | None:
        if job is not None:
            return row_of(self._scheduler.view(job), fields)
        if not call.job_ids:
            return None
        archived = self._scheduler.store.find_archived(job_id)
        if archived is None:
            return missing_row(job_id, call.fields)
        return row_of(JobView(archived, is_archived=True), fields)
