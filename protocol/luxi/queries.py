"""Query jobs, locks, filter rules and the objects of the configuration.

Source: luxid.md section 2.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import attrs
import orjson

from common.errors import InvalidRequest, ProtocolError
from common.ids import JobId
from common.locks import parse_lock
from common.objects.kinds import QueryKind, TagKind
from common.query.qlang import Expression
from common.queue.jobs import LogEntry
from common.shapes import AS_IT_COMES, Row
from common.wire import structure
from protocol.messages import Request

# JSON whose shape depends on the field; the reader checks it
FieldValue = object
# values in the order of the requested fields
Rows = tuple[tuple[FieldValue, ...], ...]
# state (0: normal) and value
Cell = tuple[int, FieldValue]


@attrs.frozen
class FieldDefinition:
    """A field: its name, the title of its column, the kind of its values, and its description."""

    name: str
    title: str
    kind: str
    doc: str


@attrs.frozen
class FieldDefinitions:
    fields: tuple[FieldDefinition, ...]


@attrs.frozen
class QueryResult:
    """Rows of cells, in the order of the requested fields."""

    fields: tuple[FieldDefinition, ...]
    data: Annotated[list[list[Cell]], AS_IT_COMES]

    def values(self) -> Iterator[list[FieldValue]]:
        """The rows as bare values; null for a cell without one."""
        return ([None if state else value for state, value in row] for row in self.data)


@attrs.frozen
class QueryJobs(Request[Rows]):
    """Rows of bare values, one for each job; null as ids: all jobs that are not archived, by id."""

    METHOD = "QueryJobs"
    job_ids: tuple[JobId, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class Page:
    """A part of the rows of a query of jobs, in the order of their ids; ours."""

    # maximum number of rows
    limit: int
    # id of the last row before this part; null: there is none
    after: JobId | None = None
    # whether greater ids come first
    descending: bool = True


@attrs.frozen
class Query(Request[QueryResult]):
    """Rows of cells with their states (luxid.md 7)."""

    METHOD = "Query"
    what: QueryKind
    fields: tuple[str, ...]
    # condition; objects for which it is not true are left out; one that only lists names is a look-up
    filter: Expression | None = None
    # only for jobs: the part that is wanted; null: all rows
    page: Page | None = None


@attrs.frozen
class QueryFields(Request[FieldDefinitions]):
    """The definitions of fields; null: all."""

    METHOD = "QueryFields"
    what: QueryKind
    fields: tuple[str, ...] | None = None


@attrs.frozen
class QueryNodes(Request[Rows]):
    """Rows of bare values of the nodes with these names or UUIDs; empty: all."""

    METHOD = "QueryNodes"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    # must be false
    lock: bool = False


@attrs.frozen
class QueryGroups(Request[Rows]):
    """Rows of bare values of node groups; otherwise as `QueryNodes`."""

    METHOD = "QueryGroups"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryNetworks(Request[Rows]):
    """Rows of bare values of networks; otherwise as `QueryNodes`."""

    METHOD = "QueryNetworks"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryInstances(Request[Rows]):
    """Rows of bare values of instances; otherwise as `QueryNodes`."""

    METHOD = "QueryInstances"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryFilters(Request[Rows]):
    """Rows of bare values of the filter rules with these UUIDs, by UUID; null: all."""

    METHOD = "QueryFilters"
    uuids: tuple[str, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class QueryExports(Request[Rows]):
    """Rows `[node, export]`; null for a node without exports, or one that could not be queried."""

    METHOD = "QueryExports"
    nodes: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryTags(Request[tuple[str, ...]]):
    """The tags of an object, sorted; for the cluster the name is ignored."""

    METHOD = "QueryTags"
    kind: TagKind
    name: str


# Wait for changes of one job.
#
# Source: luxid.md section 2.


@attrs.frozen
class JobSnapshot(Row):
    """The present state of a job: `[values, log entries]`."""

    # values of the fields; all null: luxid cannot tell them
    values: tuple[FieldValue, ...]
    # log entries that the caller does not have
    entries: tuple[LogEntry, ...]


@attrs.frozen
class WaitForJobChange(Request[JobSnapshot]):
    """Wait until the fields or the log of a job differ from what the caller knows.

    At the time-out the reply has the present values, and no entries.
    """

    METHOD = "WaitForJobChange"
    job_id: JobId
    fields: tuple[str, ...]
    # values that the caller has; null: reply at once
    previous: object
    # last log serial that the caller has; null: none
    previous_serial: object
    # seconds, capped at 89
    timeout: float


# The cluster and its settings.
#
# Source: luxid.md section 2.


# a name of ours for QueryConfigValues: what the candidates lack of the queue, null if it is not copied
QUEUE_LAGS: Final = "queue_lags"


@attrs.frozen
class QueueLag(Row):
    """What a candidate lacks of the queue; a list of these is the value of `QUEUE_LAGS`."""

    node: str
    # number of files, as far as is known before they were compared
    files: int
    # for how long it has lacked something
    seconds: float
    # why the last attempt failed; null: it did not
    failure: str | None


@attrs.frozen
class QueryConfigValues(Request[tuple[FieldValue, ...]]):
    """The values of the named settings of the cluster; null for an unknown name."""

    METHOD = "QueryConfigValues"
    names: tuple[str, ...]


@attrs.frozen
class QueryClusterInfo(Request[Mapping[str, FieldValue]]):
    """The cluster object and information about this daemon (luxid.md 2.8)."""

    METHOD = "QueryClusterInfo"


# A row of the lock monitor: luxid makes it, and clients read it.
#
# Source: luxid.md 7.4.


# begins the name of a job in the table
JOB: Final = "job/"

# fields of a Query of locks, in the order of `LockRow`
LOCK_FIELDS: Final = ("name", "mode", "owner", "pending")


@attrs.frozen
class LockRow(Row):
    """One lock, or a job whose end others wait for; owners and pending requests in the order of wconfd."""

    name: str
    # strongest mode in which it is held; None: it is free
    mode: str | None
    owners: tuple[str, ...]
    # pairs of a mode, or of the final states of a job that are wanted, and the owners that wait
    pending: tuple[tuple[str, tuple[str, ...]], ...]


def read_lock_view(answer: QueryResult) -> tuple[LockRow, ...]:
    """Return the locks that are held or waited for, in lock order, then jobs by id.

    Args: answer: reply to a Query of locks with `LOCK_FIELDS`.
    Raises: ProtocolError: the reply has another form. InvalidRequest: a name in it is unknown.
    """
    try:
        rows = [_in_words(structure(row, LockRow)) for row in answer.values()]
    except (InvalidRequest, TypeError, ValueError) as error:
        raise ProtocolError("luxid's answer on locks has an unknown form; is it of another version?") from error
    jobs = sorted((row for row in rows if row.name.startswith(JOB)), key=lambda row: int(row.name.removeprefix(JOB)))
    locks = [row for row in rows if not row.name.startswith(JOB) and (row.owners or row.pending)]
    return (*sorted(locks, key=lambda row: parse_lock(row.name)), *jobs)


def _in_words(row: LockRow) -> LockRow:
    """The row with its owners as people read them. Raises: ValueError: a name is not one of an owner."""
    pending = tuple((wanted, tuple(map(_owner, owners))) for wanted, owners in row.pending)
    return attrs.evolve(row, owners=tuple(map(_owner, row.owners)), pending=pending)


def _owner(text: str) -> str:
    """Convert luxid's form of an owner: a number is a job; another owner is its name in quotes."""
    if text.isdigit():
        return f"{JOB}{text}"
    return str(orjson.loads(text)) if text.startswith('"') else text
