"""Rows of jobs, from memory and from disk, in pieces so that other tasks run in between.

Source: luxid.md 7.2, 7.3.
"""

import bisect
import math
import os
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import trio

from common.errors import InvalidRequest, Unavailable
from common.ids import JobId
from common.query.bounds import Bounds
from common.queue.jobs import Job, JobState
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import read_job_id
from daemons.luxid.core.query.jobfields import JobView
from daemons.luxid.core.query.jobs import JobRow, UnreadJob
from daemons.luxid.core.queue.endedjobs import EndedJobs
from daemons.luxid.files.store import Store
from daemons.luxid.jobs.jobtable import JobTable
from daemons.luxid.jobs.jobviews import JobViews
from protocol.luxi.queries import Page

# number of rows made before other tasks run
_BATCH: Final = 200
_PREFIX: Final = "job-"
_log: Final = get_log(__name__)


class JobRows:
    """The jobs of the queue and the archive, in the form from which fields are read."""

    def __init__(self, table: JobTable, store: Store, views: JobViews, ended: EndedJobs) -> None:
        self._table = table
        self._store = store
        self._views = views
        self._ended = ended

    async def named(self, job_ids: Sequence[JobId]) -> AsyncGenerator[list[JobRow], None]:
        """These jobs, in this order, archived ones included; for a job that does not exist an UnreadJob.

        Raises: Unavailable: a job's file cannot be read at the moment.
        """
        async with aclosing(self._rows(job_ids, is_lenient=False)) as batches:
            async for batch in batches:
                yield batch

    async def every(
        self,
        *,
        archived: bool,
        page: Page | None = None,
        without: frozenset[JobState] = frozenset(),
        bounds: Bounds | None = None,
    ) -> AsyncGenerator[list[JobRow], None]:
        """All live jobs, by id, and archived ones if wanted; or those of them at the place and in the order of a page.

        Unreadable jobs are left out.

        Args:
            without: final states; live jobs that are known to be in one of them are left out unread.
            bounds: of the ids of a page; None: none.
        Raises: Unavailable: the archive cannot be listed at the moment.
        """
        job_ids = self._table.ids()
        if without:
            ended = self._ended.get
            job_ids = [job_id for job_id in job_ids if ended(job_id) not in without]
        if archived:
            job_ids = sorted({*job_ids, *await self._set_aside()})
        job_ids = in_order_of(page, job_ids, bounds)
        # an UnreadJob was archived since the ids were listed, or removed from the archive
        async with aclosing(self._rows(job_ids, is_lenient=True)) as batches:
            async for batch in batches:
                yield [row for row in batch if isinstance(row, JobView) and (archived or not row.is_archived)]

    async def _set_aside(self) -> list[JobId]:
        try:
            return await in_thread(_archived_ids, self._store.paths.archive)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the archive cannot be listed: {reason}; try again") from error

    async def unread(
        self, job_ids: Sequence[JobId] | None, page: Page | None = None
    ) -> AsyncGenerator[list[JobRow], None]:
        """These jobs, or all live ones, without reading their files: for queries of ids only."""
        for batch in _batches(in_order_of(page, self._table.ids()) if job_ids is None else job_ids):
            yield [UnreadJob(job_id) for job_id in batch]
            await trio.lowlevel.checkpoint()

    async def _rows(self, job_ids: Sequence[JobId], *, is_lenient: bool) -> AsyncGenerator[list[JobRow], None]:
        for batch in _batches(job_ids):
            live = await self._table.get_many(batch, is_lenient=is_lenient)
            await trio.lowlevel.checkpoint()
            absent = [job_id for job_id, job in zip(batch, live, strict=True) if job is None]
            archived = await self._archived(absent, is_lenient=is_lenient) if absent else {}
            yield [self._row(job_id, job, archived) for job_id, job in zip(batch, live, strict=True)]

    def _row(self, job_id: JobId, job: Job | None, archived: dict[JobId, Job]) -> JobRow:
        if job is not None:
            return self._views.of(job)
        found = archived.get(job_id)
        return JobView(found, is_archived=True) if found is not None else UnreadJob(job_id)

    async def _archived(self, job_ids: Sequence[JobId], *, is_lenient: bool) -> dict[JobId, Job]:
        def read() -> dict[JobId, Job]:
            jobs = ((job_id, self._read_archived(job_id, is_lenient=is_lenient)) for job_id in job_ids)
            return {job_id: job for job_id, job in jobs if job is not None}

        return await in_thread(read)

    def _read_archived(self, job_id: JobId, *, is_lenient: bool) -> Job | None:
        try:
            return self._store.find_archived(job_id)
        except Unavailable as error:
            if not is_lenient:
                raise
            _log.warning("job.unreadable", job=job_id, reason=error, effect="left out of a list")
            return None


def job_ids_of(values: Sequence[str | int]) -> list[JobId]:
    """The ids that a filter names, each once; numbers may be written as text.

    Raises: InvalidRequest: a value is not an id.
    """
    try:
        return list(dict.fromkeys(read_job_id(value) for value in values))
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def in_order_of(page: Page | None, job_ids: list[JobId], bounds: Bounds | None = None) -> list[JobId]:
    """The ids from the place of a page on, in its order, and within bounds; without a page as they are.

    Args: job_ids: ascending.
    """
    if page is None:
        return job_ids
    low, high = (-math.inf, math.inf) if bounds is None else (bounds.low, bounds.high)
    if page.after is not None:
        low, high = (low, min(high, page.after - 1)) if page.descending else (max(low, page.after + 1), high)
    found = job_ids[bisect.bisect_left(job_ids, low) : bisect.bisect_right(job_ids, high)]
    return found[::-1] if page.descending else found


def _batches(job_ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    return (job_ids[start : start + _BATCH] for start in range(0, len(job_ids), _BATCH))


def _archived_ids(archive: Path) -> list[JobId]:
    """List the archive, in a thread, because a large one takes long. Raises: OSError: a folder cannot be listed."""
    names = [name for _, _, files in os.walk(archive, onerror=_check_gone) for name in files]
    numbers = [name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX)]
    return [JobId(int(number)) for number in numbers if number.isascii() and number.isdigit()]


def _check_gone(error: OSError) -> None:
    """Raises: OSError: the folder is there; without its jobs a list would be taken for whole."""
    if not isinstance(error, FileNotFoundError):
        raise error
