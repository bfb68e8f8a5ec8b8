"""LUXI requests for what is read, and the form of the replies.

Source: rapi.md 6.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.errors import InvalidRequest, NotFound
from common.query.kinds import QueryKind
from common.query.qlang import Expression
from daemons.rapid.ganeti.core import fieldlists
from daemons.rapid.ganeti.core.arguments import Arguments
from daemons.rapid.ganeti.core.bodies import member, object_of
from protocol.luxi.queries import Query, QueryGroups, QueryInstances, QueryNetworks, QueryNodes, Rows
from protocol.messages import Request

Row = Sequence[object]
ByNames = Callable[[tuple[str, ...], tuple[str, ...], bool], Request[Rows]]


def as_objects(fields: Sequence[str], rows: Iterable[Row]) -> list[dict[str, object]]:
    """Each row as an object with the fields' names."""
    return [dict(zip(fields, row, strict=True)) for row in rows]


def as_links(collection: str, key: str, rows: Iterable[Row]) -> list[dict[str, object]]:
    """Each row, of a name or id, as an object with it and with its URI."""
    return [{key: row[0], "uri": f"/2/{collection}/{row[0]}"} for row in rows]


@attrs.frozen
class Kind:
    """A kind of objects that are listed, and looked up by name or UUID."""

    # name of the collection in the URI
    collection: str
    # key of the name in a list
    key: str
    fields: tuple[str, ...]
    ask: ByNames
    # adds old names of fields to an item
    extend: Callable[[dict[str, object]], dict[str, object]] = lambda item: item
    # whether the old names are in bulk lists, too
    extends_bulk: bool = False

    def listing(self, arguments: Arguments) -> Request[Rows]:
        fields = self.fields if arguments.flag("bulk") else ("name",)
        return self.ask((), fields, arguments.flag("lock"))

    def list_of(self, arguments: Arguments, rows: Rows) -> list[dict[str, object]]:
        if not arguments.flag("bulk"):
            return sorted(as_links(self.collection, self.key, rows), key=lambda link: str(link[self.key]))
        items = as_objects(self.fields, rows)
        return [self.extend(item) for item in items] if self.extends_bulk else items

    def looking_up(self, name: str, arguments: Arguments) -> Request[Rows]:
        return self.ask((name,), self.fields, arguments.flag("lock"))

    def item_of(self, name: str, rows: Rows) -> dict[str, object]:
        """Raises: NotFound: there is none."""
        return self.extend(as_objects(self.fields, [only(rows, self.collection, name)])[0])


def only(rows: Rows, collection: str, name: str) -> Row:
    """Raises: NotFound: there is none."""
    if not rows:
        raise NotFound(f"there is no '{name}' among the {collection}")
    return rows[0]


def _with_secondary_ip(node: dict[str, object]) -> dict[str, object]:
    return {**node, "secondary_ip": node["sip"]}


def _with_memory(instance: dict[str, object]) -> dict[str, object]:
    beparams = instance["beparams"]
    if not isinstance(beparams, dict) or "maxmem" not in beparams:
        return instance
    return {**instance, "beparams": {**beparams, "memory": beparams["maxmem"]}}


NODES: Final = Kind("nodes", "id", fieldlists.NODE, QueryNodes, _with_secondary_ip)
INSTANCES: Final = Kind("instances", "id", fieldlists.INSTANCE, QueryInstances, _with_memory, extends_bulk=True)
GROUPS: Final = Kind("groups", "name", fieldlists.GROUP, QueryGroups)
NETWORKS: Final = Kind("networks", "name", fieldlists.NETWORK, QueryNetworks)


def with_old_names(facts: Mapping[str, object]) -> dict[str, object]:
    """The facts about the cluster, also under the names that old clients read."""
    return {**facts, "vg_name": facts["volume_group_name"], "drbd_helper": facts["drbd_usermode_helper"]}


def query_of(what: QueryKind, arguments: Arguments, body: object = None, *, has_body: bool) -> Query:
    """The query of a request.

    Args: has_body: the verb is the one whose parameters are in the body.
    Raises: InvalidRequest: it names no fields, or is malformed.
    """
    given = object_of(body) if has_body else {}
    listed = member(given, "fields", list, None)
    fields = arguments.words("fields") if listed is None else tuple(map(_field, listed))
    if fields is None:
        raise InvalidRequest("no fields are asked for; add '?fields=NAME,NAME', or 'fields' to the body")
    condition = given.get("qfilter")
    condition = given.get("filter") if condition is None else condition
    return Query(what, fields, None if condition is None else Expression.from_wire(condition))


def _field(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidRequest(f"a field is a string, got {name!r:.60}")
    return name
