"""Queries of jobs, locks, filter rules and the objects of the configuration.

Source: luxid.md section 2.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from common.ids import JobId
from common.query.kinds import QueryKind, TagKind
from common.query.qlang import Expression
from protocol.messages import Request


@attrs.frozen
class QueryJobs(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values, one for each job; no ids: all jobs that are not archived, by id."""

    METHOD = "QueryJobs"
    job_ids: tuple[JobId, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class Query(Request[Mapping[str, Any]]):
    """Rows of `[status, value]` cells: `{"fields": [definition, ...], "data": [row, ...]}` (luxid.md 7)."""

    METHOD = "Query"
    what: QueryKind
    fields: tuple[str, ...]
    # what is not true for it is left out; one that only lists names is a look-up
    filter: Expression | None = None


@attrs.frozen
class QueryFields(Request[Mapping[str, Any]]):
    """The definitions of fields: `{"fields": [{"name", "title", "kind", "doc"}, ...]}`; none named: all."""

    METHOD = "QueryFields"
    what: QueryKind
    fields: tuple[str, ...] | None = None


@attrs.frozen
class QueryNodes(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values of the nodes with these names or UUIDs; none named: all."""

    METHOD = "QueryNodes"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    # must be false
    lock: bool = False


@attrs.frozen
class QueryGroups(Request[tuple[tuple[Any, ...], ...]]):
    """The same of node groups."""

    METHOD = "QueryGroups"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryNetworks(Request[tuple[tuple[Any, ...], ...]]):
    """The same of networks."""

    METHOD = "QueryNetworks"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryInstances(Request[tuple[tuple[Any, ...], ...]]):
    """The same of instances."""

    METHOD = "QueryInstances"
    names: tuple[str, ...]
    fields: tuple[str, ...]
    lock: bool = False


@attrs.frozen
class QueryFilters(Request[tuple[tuple[Any, ...], ...]]):
    """Rows of bare values of the filter rules with these UUIDs, by UUID; none named: all."""

    METHOD = "QueryFilters"
    uuids: tuple[str, ...] | None
    fields: tuple[str, ...]


@attrs.frozen
class QueryExports(Request[tuple[tuple[Any, ...], ...]]):
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
