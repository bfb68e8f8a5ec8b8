"""Change many jobs: list them first, then change exactly those.

A ticket is a hash of the verb and the ids. So nothing is kept between the two calls, and a ticket holds for ever, and
for other callers, too: it tells nothing but what its reader has seen.

Source: DESIGN section 15.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs
import trio

from common.errors import Conflict, GantryError, InvalidRequest
from common.ids import JobId
from common.query.kinds import QueryKind
from common.wire import read_job_id
from common.words.filters.filtertext import Expression as Wire
from daemons.rapid.calls import Asked, Daemons
from daemons.rapid.resources.filterwords import ENDED, UNENDED, both, read_job_filter
from daemons.rapid.resources.jobactions import archive_done
from protocol.http.body import HungUp
from protocol.luxi import jobs as luxi
from protocol.luxi.queries import Page, Query
from protocol.rapid.jobactions import (
    BULK_MOST,
    ArchiveMany,
    CancelMany,
    ChangedJob,
    ManyChanged,
    ManyJobs,
    PrioritizeMany,
)

# number of calls to luxid at once: it makes their files durable together
_AT_ONCE: Final = 8

# changes jobs; one result for each, in order
Change = Callable[[Daemons, Sequence[JobId]], Awaitable[Sequence[luxi.Done]]]
One = Callable[[Daemons, JobId], Awaitable[luxi.Done]]


@attrs.frozen
class Verb:
    """What is done to the jobs."""

    name: str
    # condition that a job must meet for the verb to apply to it
    possible: Wire
    change: Change


class BulkActions:
    """The calls that change many jobs."""

    async def cancel_many(self, asked: Asked) -> ManyChanged:
        wish = asked.body_as(CancelMany)
        verb = Verb("cancel", UNENDED, lambda daemons, ids: daemons.luxid(luxi.CancelJobs(tuple(ids), wish.kill)))
        return await change_many(asked.daemons, wish, verb)

    async def prioritize_many(self, asked: Asked) -> ManyChanged:
        wish = asked.body_as(PrioritizeMany)
        verb = Verb("priority", UNENDED, changing(luxi.JobChange(priority=wish.priority)))
        return await change_many(asked.daemons, wish, verb)

    async def archive_many(self, asked: Asked) -> ManyChanged:
        async def archive(daemons: Daemons, job_id: JobId) -> luxi.Done:
            return archive_done(await daemons.luxid(luxi.ArchiveJob(job_id)), job_id)

        return await change_many(asked.daemons, asked.body_as(ArchiveMany), Verb("archive", ENDED, one_by_one(archive)))


def changing(change: luxi.JobChange) -> Change:
    """Change jobs by one call of luxid."""
    return lambda daemons, ids: daemons.luxid(luxi.ChangeJobs(tuple(ids), change))


async def change_many(daemons: Daemons, wish: ManyJobs, verb: Verb) -> ManyChanged:
    """Change the jobs that are wished for, or say which they are.

    Raises:
        InvalidRequest: they are neither named nor found by a filter, or too many.
        Conflict: other jobs would be hit than the caller expects; nothing was changed.
    """
    job_ids = await chosen_jobs(daemons, wish, verb.possible)
    ticket = ticket_for(verb.name, job_ids)
    if wish.dry_run:
        return ManyChanged(True, len(job_ids), tuple(job_ids), ticket)
    check_expected(wish, job_ids, ticket)
    told = await verb.change(daemons, job_ids) if job_ids else ()
    results = tuple(ChangedJob(job_id, done.is_done, done.message) for job_id, done in zip(job_ids, told, strict=True))
    return ManyChanged(False, len(job_ids), tuple(job_ids), ticket, results)


def ticket_for(verb: str, job_ids: Sequence[int]) -> str:
    """The text that stands for doing this to exactly these jobs."""
    told = f"{verb} {','.join(map(str, sorted(job_ids)))}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


async def chosen_jobs(daemons: Daemons, wish: ManyJobs, possible: Wire) -> list[JobId]:
    """The jobs that are wished for.

    Args: possible: condition that a filter must meet, too.
    Raises: InvalidRequest: they are neither named nor found by a filter, or too many.
    """
    if (wish.ids is None) == (wish.filter is None):
        raise InvalidRequest("name the jobs either by 'ids' or by a 'filter'")
    if wish.ids is not None:
        found = list(dict.fromkeys(wish.ids))
    else:
        filter = both(read_job_filter(wish.filter), possible)
        rows = await daemons.luxid(Query(QueryKind.JOB, ("id",), filter, Page(BULK_MOST + 1, descending=False)))
        found = [read_job_id(values[0]) for values in rows.values()]
    if len(found) > BULK_MOST:
        raise InvalidRequest(f"more than {BULK_MOST} jobs would be hit; narrow the filter, e.g. by id<N")
    return found


def check_expected(wish: ManyJobs, job_ids: Sequence[JobId], ticket: str) -> None:
    """Raises: Conflict: other jobs would be hit than the caller expects."""
    if wish.expected is not None and wish.expected != len(job_ids):
        raise Conflict(
            f"{len(job_ids)} jobs would be hit, not {wish.expected}; nothing was changed; look again with dry_run",
            count=len(job_ids),
        )
    if wish.ticket is not None and wish.ticket != ticket:
        raise Conflict(
            f"other jobs would be hit than in the dry run, now {len(job_ids)}; nothing was changed; "
            "look again with dry_run",
            count=len(job_ids),
        )


def one_by_one(change: One) -> Change:
    """Change jobs by a call of luxid each, a few at a time; a refusal of one stops no other.

    The change raises HungUp if the client goes while luxid is away.
    """

    async def change_all(daemons: Daemons, job_ids: Sequence[JobId]) -> Sequence[luxi.Done]:
        results: dict[JobId, luxi.Done] = {}
        rest = iter(job_ids)
        has_gone = False

        async def work() -> None:
            nonlocal has_gone
            try:
                for job_id in rest:
                    results[job_id] = await _changed(daemons, job_id, change)
            except HungUp:
                has_gone = True
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for _ in range(min(_AT_ONCE, len(job_ids))):
                nursery.start_soon(work)
        if has_gone:
            # as itself, not in the group of a nursery
            raise HungUp
        return [results[job_id] for job_id in job_ids]

    return change_all


async def _changed(daemons: Daemons, job_id: JobId, change: One) -> luxi.Done:
    try:
        return await change(daemons, job_id)
    except GantryError as error:
        return luxi.Done(False, error.message)
