"""Lists of jobs, page by page, and single jobs.

Source: DESIGN section 15; luxid.md 7.3.
"""

import base64
import binascii
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, cast
from urllib.parse import urlencode

import attrs
import orjson

from common.errors import InvalidRequest, JobLost
from common.ids import JobId
from common.jsontext import read_json
from common.objects.kinds import QueryKind
from common.query.qlang import Expression
from common.queue.jobs import FINAL_NAMES
from common.webaccess.rights import Right
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression as Wire
from common.words.filters.filtertext import parse_filter
from common.words.filters.jobfilter import job_filter, statuses_filter
from common.words.outcome import batch_state, no_such_job
from daemons.rapid.calls import Asked, Call, CallParameter, Daemons, Given
from daemons.rapid.refusals import RequestRefused
from daemons.rapid.resources.parameters import (
    choice,
    choice_of,
    flag,
    flag_of,
    job_id_of,
    text_of,
    whole,
    whole_of,
    words_of,
)
from protocol.luxi.queries import Page, Query, QueryJobs
from protocol.rapid.jobs import (
    JOB_FIELDS,
    LIST_FIELDS,
    PAGE_DEFAULT,
    PAGE_MOST,
    BatchList,
    BatchNow,
    Job,
    JobPage,
    JobQuery,
    job_object,
)

# Cursors: the place in a list of jobs where the next page begins.
#
# A cursor names the last job of the page before, so that jobs that come or go meanwhile are neither shown twice nor
# passed over. It is opaque for clients.


_FORM: Final = re.compile(r"([<>])([0-9]{1,19})")


@attrs.frozen
class Cursor:
    """The next page begins after this job."""

    after: JobId
    ascending: bool

    def text(self) -> str:
        """The form for clients; it needs no escape in a URL."""
        plain = f"{'>' if self.ascending else '<'}{self.after}"
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Raises: InvalidRequest: the text is not a cursor."""
        try:
            plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            plain = ""
        found = _FORM.fullmatch(plain)
        if found is None:
            raise InvalidRequest(f"cursor {text!r:.60} is not one of ours; take 'next' of a page, or begin without")
        return cls(JobId(int(found[2])), found[1] == ">")


# Jobs as luxid has them.


async def page_of_jobs(
    daemons: Daemons,
    fields: Sequence[str],
    filter: Expression | None,
    *,
    limit: int | None = None,
    after: int | None = None,
) -> tuple[JobRow, ...]:
    """Jobs, newest first.

    Args:
        limit: None: all.
        after: id of the last job of the page before.
    """
    page = None if limit is None else Page(limit, None if after is None else JobId(after))
    found = await daemons.luxid(Query(QueryKind.JOB, tuple(fields), filter, page))
    return _there(fields, found.values())


async def jobs_by_id(daemons: Daemons, job_ids: Sequence[int], fields: Sequence[str]) -> tuple[JobRow, ...]:
    """These jobs, also archived ones; those that do not exist are left out."""
    if not job_ids:
        return ()
    found = await daemons.luxid(QueryJobs(tuple(map(JobId, dict.fromkeys(job_ids))), tuple(fields)))
    return _there(fields, found)


def _there(fields: Sequence[str], found: Iterable[Sequence[object]]) -> tuple[JobRow, ...]:
    # one that does not exist has no status
    rows = (dict(zip(fields, values, strict=True)) for values in found)
    return tuple(cast(JobRow, row) for row in rows if row.get("status", "") is not None)


# Filters as callers write them: the text of people, or an expression of the query language.
#
# Source: `common.words.filters.filtertext`; luxid.md 6.3.


ENDED: Final[Wire] = statuses_filter(FINAL_NAMES)
UNENDED: Final[Wire] = ["!", ENDED]


def read_job_filter(value: object) -> Expression | None:
    """A filter of jobs; None: all. Raises: InvalidRequest: it cannot be read."""
    expression = _expression(value)
    if isinstance(expression, str):
        return Expression.from_wire(job_filter(expression, time.time(), None)) if expression.strip() else None
    return None if expression is None else Expression.from_wire(expression)


def read_object_filter(value: object) -> Expression | None:
    """A filter of other things; None: all. Raises: InvalidRequest: it cannot be read."""
    expression = _expression(value)
    if isinstance(expression, str):
        return Expression.from_wire(parse_filter(expression)) if expression.strip() else None
    return None if expression is None else Expression.from_wire(expression)


def both(first: Expression | None, second: Wire) -> Expression:
    """The filter for what both find."""
    return Expression.from_wire(second if first is None else ["&", first.to_wire(), second])


def _expression(value: object) -> object:
    """A text that is JSON of a list is an expression, too: a URL has only text."""
    if not isinstance(value, str | list | None):
        raise InvalidRequest(f"filter: expected text, or a list of the query language, got {value!r:.60}")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return read_json(value)
        except orjson.JSONDecodeError as error:
            raise InvalidRequest(f"filter: it begins with '[', but is not JSON: {error}") from None
    return value


KNOWN: Final = tuple(field.name for field in attrs.fields(Job))

FIELDS: Final = CallParameter("fields", f"fields with commas between; there are {', '.join(KNOWN)}")
FILTER: Final = CallParameter(
    "filter", 'condition as text, `status=waiting & user=ada`, or as JSON of the query language, `["==", "id", 7]`'
)
LIMIT: Final = whole("limit", "number of jobs of a page", default=PAGE_DEFAULT, low=1, high=PAGE_MOST)
CURSOR: Final = CallParameter("cursor", "`next` of the page before; take the other parameters unchanged")
ORDER: Final = choice("order", "whether the newest or the oldest come first", ("desc", "asc"), "desc")
ARCHIVED: Final = flag("archived", "whether archived jobs are wanted, too")


@attrs.frozen
class JobListRows:
    """A page of jobs, as JSON objects."""

    jobs: list[dict[str, object]]
    next: str | None
    # what people should know about the list
    notes: Sequence[str] = ()


async def fetch_page(daemons: Daemons, query: JobQuery) -> JobListRows:
    """The page of a query by a filter.

    Raises: InvalidRequest: cursor, field, filter or limit are wrong. Else as `Daemons.luxid`.
    """
    if not 1 <= query.limit <= PAGE_MOST:
        raise InvalidRequest(f"limit must be from 1 to {PAGE_MOST}, got {query.limit}")
    fields = known_fields(query.fields or LIST_FIELDS)
    cursor = Cursor.read(query.cursor) if query.cursor else None
    ascending = query.ascending if cursor is None else cursor.ascending
    # one more than wanted tells whether there is a next page
    page = Page(query.limit + 1, cursor.after if cursor else None, not ascending)
    # a look-up has a row without a status for a job that does not exist, which has a place on the page nevertheless
    needed = tuple(dict.fromkeys((*fields, "id", "status", *(("archived",) if query.archived else ()))))
    found = await daemons.luxid(Query(QueryKind.JOB, needed, read_job_filter(query.filter), page))
    jobs = [job_object(needed, values) for values in found.values()]
    shown, has_more = jobs[: query.limit], len(jobs) > query.limit
    cursor_after = Cursor(JobId(int(str(shown[-1]["id"]))), ascending).text() if has_more else None
    return JobListRows([_only(fields, job) for job in shown if job["status"] is not None], cursor_after, daemons.notes)


async def fetch_jobs(daemons: Daemons, job_ids: Sequence[JobId], fields: Sequence[str]) -> list[dict[str, object]]:
    """Jobs by their ids, in this order; one that does not exist has null in all fields but its id.

    Raises: InvalidRequest: a field is unknown. Else as `Daemons.luxid`.
    """
    names = known_fields(fields)
    if not job_ids:
        return []
    asked = names if "id" in names else ("id", *names)
    rows = await daemons.luxid(QueryJobs(tuple(dict.fromkeys(job_ids)), asked))
    jobs = {job["id"]: _only(names, job) for job in (job_object(asked, values) for values in rows)}
    return [jobs[job_id] for job_id in job_ids]


async def fetch_job(daemons: Daemons, job_id: JobId, fields: Sequence[str]) -> dict[str, object]:
    """One job. Raises: JobLost: it does not exist. Else as `fetch_jobs`."""
    (job,) = await fetch_jobs(daemons, [job_id], (*fields, "status") if "status" not in fields else fields)
    if job["status"] is None:
        raise JobLost(no_such_job(job_id), job_id=job_id)
    return _only(fields, job)


def known_fields(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, in order. Raises: InvalidRequest: a name is unknown."""
    if unknown := [name for name in names if name not in KNOWN]:
        raise InvalidRequest(f"there is no field {unknown[0]!r:.60} of jobs; there are {', '.join(KNOWN)}")
    return tuple(dict.fromkeys(names))


async def list_jobs(asked: Asked) -> Given:
    query = JobQuery(
        filter=text_of(asked, FILTER),
        fields=words_of(asked, FIELDS),
        archived=flag_of(asked, ARCHIVED),
        limit=whole_of(asked, LIMIT) or PAGE_DEFAULT,
        cursor=text_of(asked, CURSOR),
        ascending=choice_of(asked, ORDER) == "asc",
    )
    rows = await fetch_page(asked.daemons, query)
    return Given(_page(rows), headers=_link(asked, rows))


async def query_jobs(asked: Asked) -> object:
    query = asked.body_as(JobQuery)
    if query.ids is None:
        return _page(await fetch_page(asked.daemons, query))
    if len(query.ids) > PAGE_MOST:
        raise RequestRefused(400, f"ids: at most {PAGE_MOST} at once, got {len(query.ids)}")
    return _page(JobListRows(await fetch_jobs(asked.daemons, query.ids, query.fields or LIST_FIELDS), None))


async def get_job(asked: Asked) -> object:
    return await fetch_job(asked.daemons, job_id_of(asked), known_fields(words_of(asked, FIELDS) or JOB_FIELDS))


def _page(rows: JobListRows) -> Mapping[str, object]:
    return {"jobs": rows.jobs, "next": rows.next, "notes": list(rows.notes)}


def _link(asked: Asked, rows: JobListRows) -> Mapping[str, str]:
    """The header for programs that page through any list (RFC 8288)."""
    if rows.next is None:
        return {}
    parameters = [(name, value) for name, value in asked.http.query_params.multi_items() if name != CURSOR.name]
    return {"Link": f'</3/jobs?{urlencode([*parameters, (CURSOR.name, rows.next)])}>; rel="next"'}


def _only(fields: Sequence[str], job: Mapping[str, object]) -> dict[str, object]:
    # jobs always tell their id
    return {name: job[name] for name in dict.fromkeys(("id", *fields)) if name in job}


# Batches: the jobs that were submitted together.
#
# Source: DESIGN sections 15 and 16.

_OF_BATCHES: Final = Expression.from_wire(["!=", "batch", ""])


async def list_batches(asked: Asked) -> BatchList:
    """Cost: linear in the jobs of the queue."""
    members: dict[str, list[JobRow]] = {}
    for row in await page_of_jobs(asked.daemons, ("id", "status", "batch", "name", "user"), _OF_BATCHES):
        members.setdefault(row["batch"], []).append(row)
    found = [_batch(batch_id, rows) for batch_id, rows in members.items()]
    return BatchList(tuple(sorted(found, key=lambda batch: -batch.last_id)))


def _batch(batch_id: str, rows: Sequence[JobRow]) -> BatchNow:
    ordered = sorted(rows, key=lambda row: row["id"])
    first, last = ordered[0], ordered[-1]
    counts = Counter(str(row["status"]) for row in rows)
    return BatchNow(
        batch_id,
        batch_state(counts),
        dict(counts),
        first["name"] or "",
        first["user"] or "",
        JobId(first["id"]),
        JobId(last["id"]),
    )


def rows() -> Sequence[Call]:
    """The calls that show jobs."""
    call = partial(Call, tag="jobs", rights=(Right.JOBS_READ,))
    listing = (FILTER, FIELDS, LIMIT, CURSOR, ORDER, ARCHIVED)
    return [
        call("GET", "/3/jobs", list_jobs, "List jobs, a page at a time.", gives=JobPage, parameters=listing),
        call(
            "POST",
            "/3/jobs/query",
            query_jobs,
            "List jobs by many ids or a long filter.",
            takes=JobQuery,
            gives=JobPage,
        ),
        call("GET", "/3/jobs/{id:int}", get_job, "Show a job.", gives=Job, errors=(404,), parameters=(FIELDS,)),
        call("GET", "/3/batches", list_batches, "List the batches of the queue.", gives=BatchList),
    ]
