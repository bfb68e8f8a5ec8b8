"""The table of `requests`, for what operators do every day: bulk changes, keys, history.

Source: DESIGN sections 15 and 16.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from cli.remote.requests import carry_out, submit_answers
from common.errors import InvalidRequest
from common.ids import JobId
from protocol.luxi.history import EndedJob, EndedJobs, PastSum, ReadHistory, SummarizeHistory
from protocol.luxi.jobs import CancelJobs, ChangeJobs, Done, JobChange, SubmitOnce, SubmittedOnce
from protocol.rapid.clients import calls
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.jobactions import BULK_MOST, CancelMany, HoldMany, ManyChanged, ModifyMany, ReleaseMany, TermsWish
from protocol.rapid.jobs import PAGE_MOST

# calls for a part of the jobs
Call = Callable[[tuple[JobId, ...]], HttpCall[ManyChanged]]
_UNCHANGED: Final = JobChange()


@carry_out.register
def _(request: SubmitOnce, client: RapidClient) -> SubmittedOnce:
    return SubmittedOnce(*submit_answers(request.jobs, request.key, client))


@carry_out.register
def _(request: CancelJobs, client: RapidClient) -> tuple[Done, ...]:
    return _in_parts(request.job_ids, lambda ids: calls.cancel_many(CancelMany(ids=ids, kill=request.kill)), client)


@carry_out.register
def _(request: ChangeJobs, client: RapidClient) -> tuple[Done, ...]:
    return _in_parts(request.job_ids, _changing(request.change), client)


def _changing(change: JobChange) -> Call:
    """Raises: InvalidRequest: no call over HTTP changes both the hold and other terms."""
    rest = attrs.evolve(change, hold=None, release=False)
    if change.hold is None and not change.release:
        wish = TermsWish(
            name=change.name,
            labels=change.labels,
            without_labels=change.without_labels,
            begin_at=change.begin_at,
            priority=change.priority,
            uses=change.uses,
            without_uses=change.without_uses,
            timeout=change.timeout,
            retries=change.retries,
            at_most=change.at_most,
            after=change.after,
            without_after=change.without_after,
        )
        return lambda ids: calls.modify_many(ModifyMany(ids=ids, change=wish))
    if rest != _UNCHANGED or (change.hold is not None and change.release):
        raise InvalidRequest("with --remote a hold is changed by a call of its own; change the other terms apart")
    if change.hold is None:
        return lambda ids: calls.release_many(ReleaseMany(ids=ids))
    why = change.hold
    return lambda ids: calls.hold_many(HoldMany(ids=ids, why=why))


def _in_parts(job_ids: Sequence[JobId], call: Call, client: RapidClient) -> tuple[Done, ...]:
    """One result for each, in order; a call takes a part of them."""
    ids = tuple(dict.fromkeys(job_ids))
    told: dict[JobId, Done] = {}
    for start in range(0, len(ids), BULK_MOST):
        for each in client.run(call(ids[start : start + BULK_MOST])).results:
            told[each.id] = Done(each.done, each.message)
    return tuple(told.get(job_id) or _untold(job_id, client) for job_id in job_ids)


def _untold(job_id: JobId, client: RapidClient) -> Done:
    return Done(False, f"{client.place.name} does not tell what became of job {job_id}; look with 'gnt-job info'")


@carry_out.register
def _(request: ReadHistory, client: RapidClient) -> EndedJobs:
    found = EndedJobs((), 0)
    for part in _pages(request):
        page = client.run(calls.read_history(part))
        found = EndedJobs(_joined(found.jobs, page.jobs), page.total, page.unread)
        if len(page.jobs) < part.limit:
            break
    return found


def _joined(first: tuple[EndedJob, ...], more: tuple[EndedJob, ...]) -> tuple[EndedJob, ...]:
    return (*first, *more)


def _pages(request: ReadHistory) -> Iterator[ReadHistory]:
    """The request in parts, each of no more jobs than a call gives."""
    for start in range(0, request.limit, PAGE_MOST):
        size = min(PAGE_MOST, request.limit - start)
        yield attrs.evolve(request, offset=request.offset + start, limit=size)


@carry_out.register
def _(request: SummarizeHistory, client: RapidClient) -> tuple[PastSum, ...]:
    return client.run(calls.summarize_history(request)).groups[: request.limit]
