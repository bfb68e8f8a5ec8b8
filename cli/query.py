"""Query luxid for jobs: rows of field name -> value."""

from collections.abc import Iterator, Sequence
from typing import Final, cast

from cli.connection import Luxid, open_luxid
from common.ids import JobId
from common.objects.kinds import QueryKind
from common.query.qlang import Expression as QueryExpression
from common.words.fields import JobRow
from common.words.filters.filtertext import Expression
from protocol.luxi.queries import Query, QueryJobs

PENDING: Final = ("queued", "waiting", "canceling")
_IDS_AT_ONCE: Final = 10_000


def query_jobs(
    client: Luxid, job_ids: Sequence[int] | None, fields: Sequence[str], statuses: Sequence[str] = ()
) -> list[JobRow]:
    """Return jobs by their ids, archived ones included; without ids all jobs that are not archived.

    Args:
        fields: names of luxid's job fields; with `statuses` given, `status` must be among them.
        statuses: leave out jobs in other states; empty: leave out none.
    Returns: rows in the order asked. A job that does not exist has a row with null in all
        fields but `id`, and is never left out.
    Raises: as `BlockingClient.call`.
    """
    answer = [values for request in _requests(job_ids, fields) for values in client.call(request)]
    rows = cast(list[JobRow], [dict(zip(fields, values, strict=True)) for values in answer])
    if not statuses:
        return rows
    return [row for row in rows if row["status"] is None or row["status"] in statuses]


def _requests(job_ids: Sequence[int] | None, fields: Sequence[str]) -> Iterator[QueryJobs]:
    """Split many jobs over several calls: luxid bounds the number of ids in a call."""
    if not job_ids:
        yield QueryJobs(None, tuple(fields))
        return
    # a job named twice has one row
    ids = [JobId(job_id) for job_id in dict.fromkeys(job_ids)]
    for start in range(0, len(ids), _IDS_AT_ONCE):
        yield QueryJobs(tuple(ids[start : start + _IDS_AT_ONCE]), tuple(fields))


def filter_jobs(client: Luxid, condition: Expression, fields: Sequence[str]) -> list[JobRow]:
    """Return the jobs for which luxid finds a condition true; archived ones too if `archived` is among the fields.

    Args: condition: JSON of the query language.
    Returns: rows by id; null where a job has no value.
    Raises: InvalidRequest: the condition is malformed. Else as `BlockingClient.call`.
    """
    answer = client.call(Query(QueryKind.JOB, tuple(fields), QueryExpression.from_wire(condition)))
    return cast(list[JobRow], [dict(zip(fields, row, strict=True)) for row in answer.values()])


def jobs_now(job_ids: Sequence[int] | None, fields: Sequence[str], statuses: Sequence[str] = ()) -> list[JobRow]:
    """`query_jobs` over a connection of its own."""
    with open_luxid() as client:
        return query_jobs(client, job_ids, fields, statuses)


def group_names() -> list[str]:
    """The names of all node groups."""
    with open_luxid() as client:
        found = client.call(Query(QueryKind.GROUP, ("name",), None))
    return [str(name) for (name,) in found.values()]


def missing(rows: Sequence[JobRow]) -> list[int]:
    """The ids of those rows whose job does not exist."""
    return [row["id"] for row in rows if row["status"] is None]
