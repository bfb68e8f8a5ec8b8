"""Change jobs, one or many, and run ended ones again.

Source: DESIGN sections 15 and 16.
"""

import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from common.errors import Conflict, GantryError, InvalidRequest, NotFound
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.opcodes.base import summary
from common.opcodes.registry import parse_opcode
from common.query.qlang import Expression
from common.queue.jobs import Dependency
from common.queue.reasons import new_batch_id
from common.queue.reruns import (
    OldJob,
    Successor,
    batches_of,
    chosen,
    dependents_filters,
    outside,
    successors,
    with_dependents,
)
from common.webaccess.rights import Right
from common.wire import read_job_id
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression as Wire
from common.words.outcome import no_such_job
from daemons.rapid.calls import Asked, Call, Daemons
from daemons.rapid.resources.joblists import ENDED, UNENDED, both, jobs_by_id, page_of_jobs, read_job_filter
from daemons.rapid.resources.parameters import job_id_of
from protocol.http.body import HungUp
from protocol.luxi import jobs as luxi
from protocol.luxi.jobs import ChangeJobs, NewTerms, Refused, SubmitAnswer, SubmitJob, SubmitManyJobs, TermsChange
from protocol.luxi.queries import Page, Query
from protocol.rapid.jobactions import (
    BULK_MOST,
    ArchiveMany,
    AutoArchived,
    AutoArchiveWish,
    CancelMany,
    CancelWish,
    ChangedJob,
    Done,
    HoldMany,
    HoldWish,
    ManyChanged,
    ManyJobs,
    ManyRerun,
    ModifyMany,
    PrioritizeMany,
    PriorityWish,
    ReleaseMany,
    Rerun,
    RerunLook,
    RerunMany,
    RerunWish,
)

# Change one job: cancel it, reprioritize it, archive it, hold it, change its terms.
#
# Source: luxid.md 2.4-2.6; DESIGN section 16.


async def cancel_job(asked: Asked) -> Done:
    """Raises: Conflict: it cannot be cancelled any more. JobLost, Denied."""
    wish = asked.body if isinstance(asked.body, CancelWish) else CancelWish()
    return _done(await asked.daemons.luxid(luxi.CancelJob(job_id_of(asked), wish.kill)))


async def prioritize_job(asked: Asked) -> Done:
    """Raises: Conflict: the job has ended, or is not there. InvalidRequest, Denied."""
    wish = asked.body_as(PriorityWish)
    return _done(await asked.daemons.luxid(luxi.ChangeJobPriority(job_id_of(asked), wish.priority)))


async def archive_job(asked: Asked) -> Done:
    """Raises: Conflict: the job has not ended, or is not in the queue. Denied."""
    return _done(await archive(asked.daemons, job_id_of(asked)))


async def hold_job(asked: Asked) -> Done:
    """Raises: Conflict: it has a process, or has ended. JobLost, Denied."""
    wish = asked.body if isinstance(asked.body, HoldWish) else HoldWish()
    return await _change_one(asked, TermsChange(hold=wish.why))


async def release_job(asked: Asked) -> Done:
    """Raises: as `hold_job`."""
    return await _change_one(asked, TermsChange(release=True))


async def modify_job(asked: Asked) -> Done:
    """Raises: as `hold_job`. InvalidRequest: a term breaks a rule."""
    return await _change_one(asked, TermsChange.to(asked.body_as(NewTerms)))


async def archive_old_jobs(asked: Asked) -> AutoArchived:
    wish = asked.body_as(AutoArchiveWish)
    told = await asked.daemons.luxid(luxi.AutoArchiveJobs(wish.age, wish.timeout))
    return AutoArchived(told.archived_count, told.unchecked_count)


async def archive(daemons: Daemons, job_id: JobId) -> luxi.ChangeResult:
    """Archive a job that has ended. Raises: Conflict, NotFound, Denied: as luxid says."""
    if await daemons.luxid(luxi.ArchiveJob(job_id)):
        return luxi.ChangeResult(True, f"job {job_id} is archived")
    return luxi.ChangeResult(False, f"job {job_id} has not ended, or is not in the queue")


async def _change_one(asked: Asked, change: TermsChange) -> Done:
    (told,) = await asked.daemons.luxid(ChangeJobs((job_id_of(asked),), change))
    return _done(told)


def _done(told: luxi.ChangeResult) -> Done:
    if not told.is_done:
        raise Conflict(told.message, done=False)
    return Done(told.message)


# Change many jobs: list them first, then change exactly those.
#
# A ticket is a hash of the verb and the ids. So nothing is kept between the two calls, and a ticket holds for ever, and
# for other callers, too: it tells nothing but what its reader has seen.
#
# Source: DESIGN section 15.

# number of calls to luxid at once: it makes their files durable together
_AT_ONCE: Final = 8

# changes jobs; one result for each, in order
Change = Callable[[Daemons, Sequence[JobId]], Awaitable[Sequence[luxi.ChangeResult]]]
One = Callable[[Daemons, JobId], Awaitable[luxi.ChangeResult]]


async def cancel_jobs(asked: Asked) -> ManyChanged:
    wish = asked.body_as(CancelMany)
    return await _change_many(asked, wish, "cancel", UNENDED, cancelling(kill=wish.kill))


async def archive_jobs(asked: Asked) -> ManyChanged:
    return await _change_many(asked, asked.body_as(ArchiveMany), "archive", ENDED, one_by_one(archive))


async def prioritize_jobs(asked: Asked) -> ManyChanged:
    wish = asked.body_as(PrioritizeMany)
    return await _change_many(asked, wish, "priority", UNENDED, changing(TermsChange(priority=wish.priority)))


async def hold_jobs(asked: Asked) -> ManyChanged:
    wish = asked.body_as(HoldMany)
    return await _change_many(asked, wish, "hold", UNENDED, changing(TermsChange(hold=wish.why)))


async def release_jobs(asked: Asked) -> ManyChanged:
    return await _change_many(
        asked, asked.body_as(ReleaseMany), "release", UNENDED, changing(TermsChange(release=True))
    )


async def modify_jobs(asked: Asked) -> ManyChanged:
    wish = asked.body_as(ModifyMany)
    return await _change_many(asked, wish, "modify", UNENDED, changing(TermsChange.to(wish.change)))


def cancelling(*, kill: bool = False) -> Change:
    """Cancel jobs by one call of luxid."""
    return lambda daemons, ids: daemons.luxid(luxi.CancelJobs(tuple(ids), kill))


def changing(change: TermsChange) -> Change:
    """Change jobs by one call of luxid."""
    return lambda daemons, ids: daemons.luxid(ChangeJobs(tuple(ids), change))


async def _change_many(asked: Asked, wish: ManyJobs, verb: str, possible: Wire, change: Change) -> ManyChanged:
    """Change the jobs that are wished for, or say which they are.

    Args: possible: condition that a job must meet for the verb to apply to it.
    Raises:
        InvalidRequest: they are neither named nor found by a filter, or too many.
        Conflict: other jobs would be hit than the caller expects; nothing was changed.
    """
    job_ids = await chosen_jobs(asked.daemons, wish, possible)
    ticket = ticket_for(verb, job_ids)
    if wish.dry_run:
        return ManyChanged(True, len(job_ids), tuple(job_ids), ticket)

    check_expected(wish, job_ids, ticket)
    told = await change(asked.daemons, job_ids) if job_ids else ()
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

    async def change_all(daemons: Daemons, job_ids: Sequence[JobId]) -> Sequence[luxi.ChangeResult]:
        results: dict[JobId, luxi.ChangeResult] = {}
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


async def _changed(daemons: Daemons, job_id: JobId, change: One) -> luxi.ChangeResult:
    try:
        return await change(daemons, job_id)
    except GantryError as error:
        return luxi.ChangeResult(False, error.message)


# Jobs that run again, over HTTP; the rules are those of `gnt-job rerun`.
#
# Source: DESIGN sections 15 and 16; `common.queue.reruns`.


_FIELDS: Final = ("id", "status", "ops", "opexec", "opstatus")


async def rerun_job(asked: Asked) -> Rerun:
    """Raises: NotFound. Conflict: it has not ended. Denied: what it runs is not told to the caller."""
    job_id = job_id_of(asked)
    wish = asked.body if isinstance(asked.body, RerunWish) else RerunWish()
    old = chosen(await old_jobs(asked.daemons, [job_id]), failed_only=False)
    (made,) = await made_again(asked.daemons, old, from_failed=wish.from_failed)
    new_id = await asked.daemons.luxid(SubmitJob(tuple(made.ops)))
    return Rerun(job_id, new_id)


async def rerun_jobs(asked: Asked) -> ManyRerun:
    """Raises: as `rerun_job` and as `chosen_jobs`; then none runs again."""
    wish, daemons = asked.body_as(RerunMany), asked.daemons
    job_ids = await chosen_jobs(daemons, wish, ENDED)
    if wish.with_dependents:
        job_ids = await and_dependents(daemons, job_ids)
    old = chosen(await old_jobs(daemons, job_ids), failed_only=wish.failed_only)
    ids = tuple(JobId(job.job_id) for job in old)
    ticket = ticket_for("rerun from the failed opcode" if wish.from_failed else "rerun", ids)
    made = await made_again(daemons, old, from_failed=wish.from_failed)
    if wish.dry_run:
        return ManyRerun(True, len(ids), ids, ticket, would_make=_looks(made))
    check_expected(wish, ids, ticket)
    answers = await daemons.luxid(SubmitManyJobs(tuple(tuple(each.ops) for each in made))) if made else ()
    results = tuple(_result(job_id, answer) for job_id, answer in zip(ids, answers, strict=True))
    return ManyRerun(False, len(ids), ids, ticket, results)


def _result(job_id: JobId, answer: SubmitAnswer) -> Rerun:
    return Rerun(job_id, refused=answer.message) if isinstance(answer, Refused) else Rerun(job_id, answer.job_id)


def _looks(made: Sequence[Successor]) -> tuple[RerunLook, ...]:
    ids = [JobId(each.of) for each in made]
    return tuple(
        RerunLook(
            ids[place],
            each.left_out,
            tuple(summary(parse_opcode(op)) for op in each.ops),
            tuple(dict.fromkeys(ids[place + offset] for offset in _offsets(each))),
        )
        for place, each in enumerate(made)
    )


def _offsets(made: Successor) -> list[int]:
    """Of the jobs of the same submission on which it depends."""
    lists = [depends for op in made.ops if isinstance(depends := op.get("depends"), list)]
    found = [Dependency.from_wire(each).job_id for depends in lists for each in depends]
    return [offset for offset in found if offset < 0]


async def and_dependents(daemons: Daemons, job_ids: Sequence[JobId]) -> list[JobId]:
    """These jobs and those that depend on them, directly or through others; archived ones as of `dependents_filters`.

    Raises: Conflict: too many depend on these.
    """
    if not job_ids:
        return []
    depends: dict[int, Sequence[int]] = {}
    for fields, condition in dependents_filters(job_ids):
        rows = await page_of_jobs(daemons, fields, Expression.from_wire(condition))
        depends |= {row["id"]: row["dependencies"] for row in rows}
    return [JobId(job_id) for job_id in with_dependents(job_ids, depends)]


async def made_again(daemons: Daemons, jobs: Sequence[OldJob], *, from_failed: bool = False) -> list[Successor]:
    """The jobs to submit in place of these. Args: jobs: as `chosen` returns them. Raises: as `successors`."""
    rows = await jobs_by_id(daemons, outside(jobs), ("id", "status"))
    states = {row["id"]: row["status"] for row in rows if row["status"] is not None}
    new_ids = {old: new_batch_id(os.urandom(6)) for old in batches_of(jobs)}
    return successors(jobs, states, new_ids, time.time_ns(), from_failed=from_failed)


async def old_jobs(daemons: Daemons, job_ids: Sequence[JobId]) -> list[OldJob]:
    """These jobs, also archived ones. Raises: NotFound: one of them does not exist."""
    rows = {row["id"]: row for row in await jobs_by_id(daemons, job_ids, _FIELDS)}
    return [_old_job(job_id, rows.get(job_id)) for job_id in job_ids]


def _old_job(job_id: JobId, row: JobRow | None) -> OldJob:
    """Raises: NotFound."""
    if row is None or row["status"] is None:
        raise NotFound(no_such_job(job_id))
    executed = [stamp is not None for stamp in row["opexec"] or ()]
    return OldJob(row["id"], row["status"], row["ops"] or (), executed, row["opstatus"] or ())


def rows() -> Sequence[Call]:
    """The calls that change jobs, and that run them again."""
    job, own, terms = "/3/jobs/{id:int}", Right.JOBS_SUBMIT, (Right.JOBS_SUBMIT, Right.JOBS_PRIORITY)
    may_cancel, may_archive = (own, Right.JOBS_CANCEL), (own, Right.JOBS_ARCHIVE)
    call = partial(Call, "POST", tag="jobs", changes=True)
    one = partial(call, gives=Done, errors=(404, 409))
    many = partial(call, gives=ManyChanged, errors=(409,))
    again = partial(call, rights=(own,), errors=(404, 409, 502))
    return [
        one(f"{job}/cancel", cancel_job, "Cancel a job.", rights=may_cancel, takes=CancelWish, is_body_required=False),
        one(f"{job}/priority", prioritize_job, "Give a job another priority.", rights=terms, takes=PriorityWish),
        one(f"{job}/archive", archive_job, "Archive a job that has ended.", rights=may_archive),
        one(
            f"{job}/hold",
            hold_job,
            "Keep a waiting job from beginning.",
            rights=terms,
            takes=HoldWish,
            is_body_required=False,
        ),
        one(f"{job}/release", release_job, "Let a job that is on hold go on.", rights=terms),
        Call(
            "PATCH",
            job,
            modify_job,
            "Change a waiting job's terms, what it waits for, or limits of its command.",
            tag="jobs",
            rights=terms,
            takes=NewTerms,
            gives=Done,
            errors=(404, 409),
            changes=True,
        ),
        call(
            "/3/jobs/autoarchive",
            archive_old_jobs,
            "Archive all jobs that ended some time ago.",
            rights=(Right.JOBS_ARCHIVE,),
            takes=AutoArchiveWish,
            gives=AutoArchived,
        ),
        many("/3/jobs/cancel", cancel_jobs, "Cancel many jobs, or say which.", rights=may_cancel, takes=CancelMany),
        many(
            "/3/jobs/priority",
            prioritize_jobs,
            "Give many jobs another priority, or say which.",
            rights=terms,
            takes=PrioritizeMany,
        ),
        many(
            "/3/jobs/archive",
            archive_jobs,
            "Archive many jobs that have ended, or say which.",
            rights=may_archive,
            takes=ArchiveMany,
        ),
        many("/3/jobs/hold", hold_jobs, "Hold many jobs, or say which.", rights=terms, takes=HoldMany),
        many("/3/jobs/release", release_jobs, "Release many jobs, or say which.", rights=terms, takes=ReleaseMany),
        many("/3/jobs/modify", modify_jobs, "Change many waiting jobs, or say which.", rights=terms, takes=ModifyMany),
        again(
            f"{job}/rerun",
            rerun_job,
            "Run an ended job again, whole or from its failed opcode on.",
            takes=RerunWish,
            is_body_required=False,
            gives=Rerun,
        ),
        again("/3/jobs/rerun", rerun_jobs, "Run ended jobs again, or say which.", takes=RerunMany, gives=ManyRerun),
    ]
