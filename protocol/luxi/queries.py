"""Queries of jobs, locks, filter rules and the objects of the configuration.

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

# JSON, of a shape that depends on the field; whoever reads it says what is expected
FieldValue = object
# values in the order of the fields that were asked for
Rows = tuple[tuple[FieldValue, ...], ...]
# state (0: normal) and value
Cell = tuple[int, FieldValue]


@attrs.frozen
class FieldDefinition:
    """A field: its name, the title of its column, the kind of its values, and what it tells."""

    name: str
    title: str
    kind: str
    doc: str


@attrs.frozen
class FieldDefinitions:
    fields: tuple[FieldDefinition, ...]


@attrs.frozen
class QueryResult:
    """Cells in the order of the fields that were asked for."""

    fields: tuple[FieldDefinition, ...]
    data: Annotated[list[list[Cell]], AS_IT_COMES]

    def values(self) -> Iterator[list[FieldValue]]:
        """The rows with bare values, null where there is none."""
        return ([None if state else value for state, value in row] for row in self.data)


@attrs.frozen
class QueryJobs(Request[Rows]):
    """Rows of bare values, one for each job; no ids: all jobs that are not archived, by id."""

    METHOD = "QueryJobs"
    job_ids: tuple[JobId, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class Query(Request[QueryResult]):
    """Rows of cells with their states (luxid.md 7)."""

    METHOD = "Query"
    what: QueryKind
    fields: tuple[str, ...]
    # what is not true for it is left out; one that only lists names is a look-up
    filter: Expression | None = None


@attrs.frozen
class QueryFields(Request[FieldDefinitions]):
    """The definitions of fields; none named: all."""

    METHOD = "QueryFields"
    what: QueryKind
    fields: tuple[str, ...] | None = None


@attrs.frozen
class QueryNodes(Request[Rows]):
    """Rows of bare values of the nodes with these names or UUIDs; none named: all."""

    METHOD = "QueryNodes"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    # must be false
    lock: bool = False


@attrs.frozen
class QueryGroups(Request[Rows]):
    """The same of node groups."""

    METHOD = "QueryGroups"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryNetworks(Request[Rows]):
    """The same of networks."""

    METHOD = "QueryNetworks"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryInstances(Request[Rows]):
    """The same of instances."""

    METHOD = "QueryInstances"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryFilters(Request[Rows]):
    """Rows of bare values of the filter rules with these UUIDs, by UUID; none named: all."""

    METHOD = "QueryFilters"
    uuids: tuple[str, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class QueryExports(Request[Rows]):
    """Rows `[node, export]`; null for a node without exports, or that could not be asked."""

    METHOD = "QueryExports"
    nodes: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryTags(Request[tuple[str, ...]]):
    """The tags of an object, sorted; the name of the cluster does not matter."""

    METHOD = "QueryTags"
    kind: TagKind
    name: str
