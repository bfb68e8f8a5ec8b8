"""The kinds of objects that queries show: how their rows are found, and who is asked for what is live in them.

Source: luxid.md 2.2, 7.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Generic, Protocol, TypeVar

import attrs

from common.objects.index import ConfigIndex, Named, find_named
from common.query.kinds import QueryKind, TagKind
from daemons.luxid.config.configcache import ConfigCache
from daemons.luxid.core.query.engine import Plan, Things
from daemons.luxid.core.query.exports import EXPORTS, ExportRow, export_rows
from daemons.luxid.core.query.fields import Need
from daemons.luxid.core.query.groups import GROUPS
from daemons.luxid.core.query.instance.instancelive import InstanceRow, instance_rows
from daemons.luxid.core.query.instance.instances import INSTANCES
from daemons.luxid.core.query.live import Told
from daemons.luxid.core.query.networks import NETWORKS
from daemons.luxid.core.query.nodelive import NodeRow, node_rows
from daemons.luxid.core.query.nodes import NODES
from daemons.luxid.core.query.rows import rows_of
from daemons.luxid.handlers.queries.rowreplies import classic_reply, one_piece, query_reply
from protocol.luxi.queries import FieldDefinition, Query, QueryResult, Rows
from protocol.serving.pieces import Pieces

Needs = AbstractSet[Need]


class LiveData(Protocol):
    """What node daemons tell for rows. Cancellation: calls under way are given up."""

    async def of_nodes(self, rows: Sequence[NodeRow], needs: Needs) -> Told[NodeRow]: ...

    async def of_instances(self, rows: Sequence[InstanceRow], needs: Needs) -> Told[InstanceRow]: ...

    async def of_exports(self, rows: Sequence[ExportRow], needs: Needs) -> Told[ExportRow]: ...


class _Tagged(Named, Protocol):
    @property
    def tags(self) -> frozenset[str]: ...


O = TypeVar("O", bound=_Tagged)  # noqa: E741  # an object
R = TypeVar("R")


@attrs.frozen
class Sources:
    """Where queries have their facts from."""

    config: ConfigCache
    # None: there are no node daemons to ask
    live: LiveData | None


class Objects(Protocol):
    """A kind of configuration objects that have names."""

    async def query(self, call: Query, sources: Sources) -> Pieces[QueryResult]:
        """All objects of the kind, or those whose names are looked up. Raises: as `ObjectQueries.query`."""
        ...

    async def classic(
        self, names: Sequence[str], fields: Sequence[str], sources: Sources, *, by: Sequence[str]
    ) -> Pieces[Rows]:
        """Args: by: the fields that may have one of the names."""
        ...

    def tags(self, name: str, config: ConfigIndex) -> frozenset[str]:
        """Raises: PrerequisiteError: there is no such object."""
        ...

    def definitions(self, names: Sequence[str] | None) -> list[FieldDefinition]: ...


@attrs.frozen
class _Kind(Generic[O, R]):
    """Implements `Objects`."""

    things: Things[R]
    every: Callable[[ConfigIndex], Sequence[O]]
    rows: Callable[[Sequence[O], ConfigIndex], Sequence[R]]
    # asks node daemons; None: they know nothing of this kind
    ask: Callable[[LiveData, Sequence[R], Needs], Awaitable[Told[R]]] | None = None
    is_host: bool = False

    async def query(self, call: Query, sources: Sources) -> Pieces[QueryResult]:
        plan = self.things.plan(call.fields, call.filter)
        config = await sources.config.current()
        found = self.every(config)
        if plan.asked is not None:
            found = find_named(found, plan.asked, self.things.what, is_host=self.is_host)
        told = await self._told(plan, self.rows(found, config), sources.live)
        return query_reply(plan, one_piece(told.rows), told.notes)

    async def classic(
        self, names: Sequence[str], fields: Sequence[str], sources: Sources, *, by: Sequence[str]
    ) -> Pieces[Rows]:
        plan = self.things.plan_classic(fields, self.things.named(names, *by))
        config = await sources.config.current()
        told = await self._told(plan, self.rows(self.every(config), config), sources.live)
        return classic_reply(plan, one_piece(told.rows))

    def tags(self, name: str, config: ConfigIndex) -> frozenset[str]:
        (found,) = find_named(self.every(config), [name], self.things.what, is_host=self.is_host)
        return found.tags

    def definitions(self, names: Sequence[str] | None) -> list[FieldDefinition]:
        return self.things.definitions(names)

    async def _told(self, plan: Plan[R], rows: Sequence[R], live: LiveData | None) -> Told[R]:
        """The rows, with what node daemons tell if the plan needs it."""
        if live is None or self.ask is None or not plan.needs:
            return Told(rows)
        return await self.ask(live, plan.hopeful(rows), plan.needs)


_NODES: Final = _Kind(
    NODES, lambda config: config.nodes, node_rows, lambda live, *args: live.of_nodes(*args), is_host=True
)
_INSTANCES: Final = _Kind(
    INSTANCES,
    lambda config: config.instances,
    instance_rows,
    lambda live, *args: live.of_instances(*args),
    is_host=True,
)
_GROUPS: Final = _Kind(GROUPS, lambda config: config.groups, rows_of)
_NETWORKS: Final = _Kind(NETWORKS, lambda config: config.networks, rows_of)
_EXPORTS: Final = _Kind(
    EXPORTS, lambda config: config.nodes, export_rows, lambda live, *args: live.of_exports(*args), is_host=True
)
OBJECTS: Final[Mapping[QueryKind, Objects]] = {
    QueryKind.NODE: _NODES,
    QueryKind.GROUP: _GROUPS,
    QueryKind.NETWORK: _NETWORKS,
    QueryKind.INSTANCE: _INSTANCES,
    QueryKind.EXPORT: _EXPORTS,
}
TAGGED: Final[Mapping[TagKind, Objects]] = {
    TagKind.NODE: _NODES,
    TagKind.NODEGROUP: _GROUPS,
    TagKind.NETWORK: _NETWORKS,
    TagKind.INSTANCE: _INSTANCES,
}
