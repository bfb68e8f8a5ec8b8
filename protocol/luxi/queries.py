"""Query jobs, locks, filter rules and the objects of the configuration.

Source: luxid.md section 2.
"""

from collections.abc import Iterator
from typing import Annotated

import attrs

from common.ids import JobId
from common.query.kinds import QueryKind, TagKind
from common.query.qlang import Expression
from common.shapes import AS_IT_COMES
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
