"""Nodes, groups, networks and instances, read only; LUXI's bare queries; the fields of everything.

Source: luxid.md 7.
"""

from collections.abc import Mapping
from typing import Final

from common.errors import InvalidRequest
from common.query.kinds import QueryKind
from common.query.qlang import All, Expression
from daemons.rapid.calls import Asked, Handler, Parameter
from daemons.rapid.resources.filterwords import read_object_filter
from daemons.rapid.resources.parameters import choice, choice_of, text_of, words_of
from protocol.luxi.queries import FieldDefinitions, Query, QueryFields
from protocol.rapid.objects import ObjectList, ObjectQuery, ObjectRows

# kinds that have a list of their own, with the fields that it shows by itself
LISTED: Final[Mapping[QueryKind, tuple[str, ...]]] = {
    QueryKind.NODE: ("name", "uuid", "role", "group", "pip", "offline", "drained"),
    QueryKind.GROUP: ("name", "uuid", "node_cnt", "node_list"),
    QueryKind.NETWORK: ("name", "uuid", "network", "gateway", "free_count"),
    QueryKind.INSTANCE: ("name", "uuid", "admin_state", "hypervisor", "os"),
}
# kinds that luxid serves, with lists or without
QUERIED: Final = (QueryKind.LOCK, QueryKind.FILTER, *LISTED, QueryKind.EXPORT)

FIELDS: Final = Parameter("fields", "fields with commas between; `GET /3/fields` lists them")
FILTER: Final = Parameter("filter", "condition as text, `offline or drained`, or as JSON of the query language")
WHAT: Final = choice(
    "what", "kind of things", [QueryKind.JOB.value, *(kind.value for kind in QUERIED)], QueryKind.JOB.value
)


class ObjectLists:
    """The calls that show what the cluster has."""

    def list_of(self, kind: QueryKind) -> Handler:
        """The handler that lists things of a kind."""

        async def list_objects(asked: Asked) -> ObjectList:
            fields = words_of(asked, FIELDS) or LISTED[kind]
            found = await asked.daemons.luxid(Query(kind, fields, _condition(text_of(asked, FILTER))))
            if unknown := [field.name for field in found.fields if field.kind == "unknown"]:
                raise InvalidRequest(f"there is no field {unknown[0]!r:.60}; GET /3/fields?what={kind.value} lists all")
            objects = tuple(dict(zip(fields, values, strict=True)) for values in found.values())
            return ObjectList(objects, tuple(asked.daemons.notes))

        return list_objects

    def query_of(self, kind: QueryKind) -> Handler:
        """The handler that passes a query on to luxid, and its result back."""

        async def query(asked: Asked) -> ObjectRows:
            wish = asked.body_as(ObjectQuery)
            filter = None if wish.filter is None else Expression.from_wire(wish.filter)
            found = await asked.daemons.luxid(Query(kind, wish.fields, filter))
            return ObjectRows(found.fields, found.data, tuple(asked.daemons.notes))

        return query

    async def list_fields(self, asked: Asked) -> FieldDefinitions:
        return await asked.daemons.luxid(QueryFields(QueryKind(choice_of(asked, WHAT)), words_of(asked, FIELDS)))


def _condition(text: str | None) -> Expression | None:
    """The filter, never as a look-up: one that lists names would fail if there is no such thing."""
    expression = read_object_filter(text)
    return None if expression is None else All((expression,))
