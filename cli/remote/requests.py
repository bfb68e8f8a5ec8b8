"""The table: LUXI request -> calls of /3, whose results become the reply that luxid would give.

Theory. Verbs speak LUXI with luxid here and with another machine's, so they are written once. The interface under /3
has the same facts with other names and times; this is the only place that knows both.

Source: DESIGN section 15; luxid.md section 2.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Final, TypeVar

import attrs

from cli.screen import show_note
from common.errors import Conflict, InvalidRequest, JobLost, ProtocolError, RemoteError
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.queue.explanation import Reason, Span
from common.queue.filteractions import Action
from common.queue.jobs import FINAL_NAMES
from common.wire import structure, unstructure
from protocol.luxi.jobs import (
    Archived,
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    ChangeJobPriority,
    Done,
    JobInput,
    JobOutput,
    OutputStream,
    ReadJobOutput,
    Refused,
    SubmitAnswer,
    SubmitJob,
    SubmitManyJobs,
    Submitted,
)
from protocol.luxi.queries import (
    FieldDefinitions,
    JobChange,
    Page,
    Query,
    QueryFields,
    QueryFilters,
    QueryJobs,
    QueryResult,
    Rows,
    WaitForJobChange,
)
from protocol.luxi.queue import DeleteFilter, ReplaceFilter, TryFilterRule
from protocol.luxi.why import ExplainJobs, ReadJobWaits, ReadLeftProcesses
from protocol.rapid import jobactions
from protocol.rapid.clients import calls
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.calls import HttpCall
from protocol.rapid.clients.connecting import POLL_S
from protocol.rapid.cluster import FilterWish, ObjectQuery
from protocol.rapid.jobs import PAGE_MOST, Job, JobQuery, job_object, log_entry, luxi_row

S = TypeVar("S", bound=Sequence[object])

_KNOWN: Final = frozenset(Job.__annotations__)
_USER: Final = "gnt:user"
_ALL: Final = Page(sys.maxsize, descending=False)


@singledispatch
def carry_out(request: object, client: RapidClient) -> object:
    """Carry out a request of LUXI.

    Raises: InvalidRequest: no call over HTTP does this. Else as `RapidClient` does.
    """
    name = getattr(request, "METHOD", type(request).__name__)
    raise InvalidRequest(f"this works only on a machine of the cluster, not with --remote ({name})")


@carry_out.register
def _(request: SubmitJob, client: RapidClient) -> JobId:
    return client.submit(request.job, key=request.key)


@carry_out.register
def _(request: SubmitManyJobs, client: RapidClient) -> tuple[SubmitAnswer, ...]:
    return submit_answers(request.jobs, request.key, client)[0]


def submit_answers(
    jobs: Sequence[JobInput], key: str | None, client: RapidClient
) -> tuple[tuple[SubmitAnswer, ...], bool]:
    """What became of each job, and whether they were submitted before under this key."""
    try:
        told = client.run(calls.submit_jobs(jobs, key or calls.new_key()))
    except RemoteError as error:
        match error.fields.get("jobs"):
            # none was taken
            case [*results] if error.code == Conflict.code:
                return tuple(Refused(_refusal(result)) for result in results), False
        raise
    answers = (Refused(job.refused or "") if job.id is None else Submitted(job.id) for job in told.jobs)
    return tuple(answers), told.earlier


def _refusal(result: object) -> str:
    return str(result.get("refused")) if isinstance(result, Mapping) else str(result)


@carry_out.register
def _(request: QueryJobs, client: RapidClient) -> Rows:
    if request.job_ids is None:
        return tuple(_rows_of(request.fields, _listed(JobQuery(), request.fields, client)))
    jobs = (job for ids in _parts(request.job_ids) for job in _named(ids, request, client))
    return tuple(_rows_of(request.fields, jobs))


def _named(job_ids: tuple[JobId, ...], request: QueryJobs, client: RapidClient) -> list[Mapping[str, object]]:
    query = JobQuery(ids=job_ids, fields=_asked(request.fields))
    return _one_each(job_ids, client.run(calls.query_bare_jobs(query)).jobs, client)


@carry_out.register
def _(request: Query, client: RapidClient) -> QueryResult:
    condition = None if request.filter is None else request.filter.to_wire()
    if request.what is not QueryKind.JOB:
        found = client.run(calls.query_objects(request.what, ObjectQuery(request.fields, condition)))
        _show(found.notes)
        return found
    query = JobQuery(filter=condition, archived="archived" in request.fields)
    rows = _rows_of(request.fields, _listed(query, request.fields, client, request.page or _ALL))
    return QueryResult((), [[(0, value) for value in row] for row in rows])


def _listed(
    query: JobQuery, fields: Sequence[str], client: RapidClient, part: Page = _ALL
) -> Iterator[Mapping[str, object]]:
    """The jobs that a query finds, by id; of them this part."""
    if part.after is not None:
        raise InvalidRequest("with --remote a list of jobs begins with the first or the last one")
    size = min(part.limit, PAGE_MOST)
    page = attrs.evolve(query, fields=_asked(fields), limit=size, ascending=not part.descending)
    return itertools.islice(_pages_of(page, client), part.limit)


def _pages_of(page: JobQuery, client: RapidClient) -> Iterator[Mapping[str, object]]:
    while True:
        found = client.run(calls.query_bare_jobs(page))
        _show(found.notes)
        yield from found.jobs
        if found.next is None:
            return
        if found.next == page.cursor:
            raise ProtocolError(f"{client.place.name} gives the same page of a list again and again")
        page = attrs.evolve(page, cursor=found.next)


def _show(notes: Iterable[str]) -> None:
    for note in notes:
        show_note(note)


def _asked(fields: Sequence[str]) -> tuple[str, ...]:
    # a field that nobody knows has no value, as in luxid's replies
    return tuple(name for name in fields if name in _KNOWN) or ("id",)


def _rows_of(fields: Sequence[str], jobs: Iterable[Mapping[str, object]]) -> Iterator[tuple[object, ...]]:
    return (tuple(luxi_row(fields, job)) for job in jobs)


@carry_out.register
def _(request: QueryFields, client: RapidClient) -> FieldDefinitions:
    return client.run(calls.list_fields(request.what, request.fields or ()))


@carry_out.register
def _(request: ExplainJobs, client: RapidClient) -> tuple[tuple[Reason, ...] | None, ...]:
    parts = _parts(request.job_ids)
    told = (_one_each(ids, client.run(calls.explain_jobs(ids)).jobs, client) for ids in parts)
    return tuple(job.reasons for jobs in told for job in jobs)


@carry_out.register
def _(request: ReadJobWaits, client: RapidClient) -> tuple[tuple[Span, ...] | None, ...]:
    parts = _parts(request.job_ids)
    told = (_one_each(ids, client.run(calls.read_waits(ids)).jobs, client) for ids in parts)
    return tuple(job.spans for jobs in told for job in jobs)


@carry_out.register
def _(request: ReadLeftProcesses, client: RapidClient) -> tuple[tuple[int, ...], ...]:
    parts = _parts(request.job_ids)
    told = (_one_each(ids, client.run(calls.read_left_processes(ids)).jobs, client) for ids in parts)
    return tuple(job.pids for jobs in told for job in jobs)


def _parts(job_ids: tuple[JobId, ...]) -> Iterator[tuple[JobId, ...]]:
    """At most as many ids at once as a call takes."""
    return (job_ids[start : start + PAGE_MOST] for start in range(0, len(job_ids), PAGE_MOST))


def _one_each(job_ids: Sequence[JobId], told: S, client: RapidClient) -> S:
    """What is told, if it is one value for each job. Raises: ProtocolError: what is told of which job is not known."""
    if len(told) != len(job_ids):
        raise ProtocolError(f"{client.place.name} was asked about {len(job_ids)} jobs, and tells of {len(told)}")
    return told


@carry_out.register
def _(request: WaitForJobChange, client: RapidClient) -> JobChange:
    known = job_object(request.fields, request.previous) if isinstance(request.previous, list | tuple) else None
    serial = request.previous_serial if isinstance(request.previous_serial, int) else 0
    call = calls.wait_for_change(request.job_id, request.fields, known, serial, min(request.timeout, POLL_S))
    change = client.run(call)
    if known is None and not change.log and change.job.get("status") in FINAL_NAMES:
        # perhaps archived: luxid says so, and its caller then reads the log from the job
        raise RemoteError("the job is final", code=JobLost.code, wire_name=JobLost.wire_name)
    entries = tuple(log_entry(line) for line in change.log)
    return JobChange(tuple(luxi_row(request.fields, change.job)), entries)


@carry_out.register
def _(request: ReadJobOutput, client: RapidClient) -> JobOutput:
    stream = request.stream or OutputStream.OUTPUT
    timeout_s = min(request.timeout, POLL_S)
    return client.run(calls.read_output(request.job_id, request.offset, timeout_s, stream, request.of_try))


@carry_out.register
def _(request: CancelJob, client: RapidClient) -> Done:
    return _done(calls.cancel_job(request.job_id, kill=request.kill), client)


@carry_out.register
def _(request: ChangeJobPriority, client: RapidClient) -> Done:
    return _done(calls.change_priority(request.job_id, request.priority), client)


@carry_out.register
def _(request: ArchiveJob, client: RapidClient) -> bool:
    return _done(calls.archive_job(request.job_id), client).is_done


def _done(call: HttpCall[jobactions.Done], client: RapidClient) -> Done:
    try:
        return Done(True, client.run(call).message)
    except RemoteError as error:
        if error.fields.get("done") is not False:
            raise
        return Done(False, error.message)


@carry_out.register
def _(request: AutoArchiveJobs, client: RapidClient) -> Archived:
    told = client.run(calls.archive_old(request.age, request.timeout))
    return Archived(told.archived, told.unchecked)


@carry_out.register
def _(request: ReplaceFilter, client: RapidClient) -> str:
    reasons = [entry[1] for entry in request.reason_trail if isinstance(entry, list | tuple) and entry[0] == _USER]
    wish = _wish(request, str(reasons[-1]) if reasons else "")
    rule = client.add_filter(wish) if request.uuid is None else client.replace_filter(request.uuid, wish)
    return rule.uuid


@carry_out.register
def _(request: QueryFilters, client: RapidClient) -> Rows:
    rules = (unstructure(rule) for rule in client.filters() if request.uuids is None or rule.uuid in request.uuids)
    return tuple(tuple(rule.get(name) for name in request.fields) for rule in rules if isinstance(rule, dict))


@carry_out.register
def _(request: DeleteFilter, client: RapidClient) -> None:
    client.delete_filter(request.uuid)


@carry_out.register
def _(request: TryFilterRule, client: RapidClient) -> tuple[JobId, ...]:
    return client.try_filter(_wish(request, "")).ids


def _wish(request: ReplaceFilter | TryFilterRule, reason: str) -> FilterWish:
    action = structure(unstructure(request.action), Action, "action")
    return FilterWish(action, request.priority, request.predicates, reason=reason)
