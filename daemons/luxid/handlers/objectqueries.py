"""Query jobs, locks, filter rules and the objects of the cluster.

Source: luxid.md 2.2, 7.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar, assert_never

import attrs

from common.errors import InvalidRequest, PrerequisiteError
from common.ids import JobId
from common.objects.filter import FilterRule
from common.objects.index import ConfigIndex, Named, find_named
from common.query.kinds import QueryKind, TagKind
from daemons.luxid.configcache import WAIT_S, ConfigCache
from daemons.luxid.core.query.engine import Plan, Things
from daemons.luxid.core.query.groups import GROUPS
from daemons.luxid.core.query.instances import INSTANCES
from daemons.luxid.core.query.jobfields import JobView
from daemons.luxid.core.query.jobs import JOBS, JobRow
from daemons.luxid.core.query.locks import LOCKS, lock_rows
from daemons.luxid.core.query.networks import NETWORKS
from daemons.luxid.core.query.nodes import EXPORTS, NODES
from daemons.luxid.core.query.rows import Row, rows_of
from daemons.luxid.core.query.rules import RULES
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.handlers.jobrows import JobRows, job_ids_of
from daemons.luxid.handlers.rowreplies import classic_reply, one_piece, query_reply
from daemons.luxid.jobviews import JobViews
from protocol.client import Client
from protocol.luxi.locks import LockRow
from protocol.luxi.queries import (
    FieldDefinition,
    FieldDefinitions,
    Query,
    QueryExports,
    QueryFields,
    QueryFilters,
    QueryGroups,
    QueryInstances,
    QueryJobs,
    QueryNetworks,
    QueryNodes,
    QueryResult,
    QueryTags,
    Rows,
)
from protocol.peer import Peer
from protocol.serving.pieces import Pieces
from protocol.wconfd.locks import ListLocksWaitingStatus


class _Tagged(Named, Protocol):
    @property
    def tags(self) -> frozenset[str]: ...


O_co = TypeVar("O_co", bound=_Tagged, covariant=True)


@attrs.frozen
class _Objects(Generic[O_co]):
    """A kind of configuration objects that have names."""

    things: Things[Row[O_co]]
    every: Callable[[ConfigIndex], Sequence[O_co]]
    is_host: bool = False

    async def query(self, call: Query, cache: ConfigCache) -> Pieces[QueryResult]:
        """All objects of the kind, or those whose names are looked up. Raises: as `ObjectQueries.query`."""
        plan = self.things.plan(call.fields, call.filter)
        config = await cache.current()
        found = self.every(config)
        if plan.asked is not None:
            found = find_named(found, plan.asked, self.things.what, is_host=self.is_host)
        return query_reply(plan, one_piece(rows_of(found, config)))

    async def classic(
        self, names: Sequence[str], fields: Sequence[str], cache: ConfigCache, *, by: Sequence[str]
    ) -> Pieces[Rows]:
        """Args: by: the fields that may have one of the names."""
        plan = self.things.plan_classic(fields, self.things.named(names, *by))
        config = await cache.current()
        return classic_reply(plan, one_piece(rows_of(self.every(config), config)))

    def tags(self, name: str, config: ConfigIndex) -> frozenset[str]:
        """Raises: PrerequisiteError: there is no such object."""
        (found,) = find_named(self.every(config), [name], self.things.what, is_host=self.is_host)
        return found.tags


_NODES: Final = _Objects(NODES, lambda config: config.nodes, is_host=True)
_GROUPS: Final = _Objects(GROUPS, lambda config: config.groups)
_NETWORKS: Final = _Objects(NETWORKS, lambda config: config.networks)
_INSTANCES: Final = _Objects(INSTANCES, lambda config: config.instances, is_host=True)
_EXPORTS: Final = _Objects(EXPORTS, lambda config: config.nodes, is_host=True)
_OBJECTS: Final[Mapping[QueryKind, _Objects[_Tagged]]] = {
    QueryKind.NODE: _NODES,
    QueryKind.GROUP: _GROUPS,
    QueryKind.NETWORK: _NETWORKS,
    QueryKind.INSTANCE: _INSTANCES,
    QueryKind.EXPORT: _EXPORTS,
}
_TAGGED: Final[Mapping[TagKind, _Objects[_Tagged]]] = {
    TagKind.NODE: _NODES,
    TagKind.NODEGROUP: _GROUPS,
    TagKind.NETWORK: _NETWORKS,
    TagKind.INSTANCE: _INSTANCES,
}


class ObjectQueries:
    """The methods that show things as rows. Replies are JSON in pieces: the many rows are never in memory together."""

    def __init__(self, jobs: JobRows, queue: JobQueue, config: ConfigCache, wconfd: Client) -> None:
        self._jobs = jobs
        self._queue = queue
        self._config = config
        self._wconfd = wconfd

    async def query(self, call: Query, peer: Peer) -> Pieces[QueryResult]:
        """Raises: FilterError; PrerequisiteError: a requested name is unknown; ConfigurationMissing."""
        match call.what:
            case QueryKind.JOB:
                jobs = JOBS.plan(call.fields, call.filter)
                return query_reply(
                    jobs, self._job_rows(jobs, None if jobs.asked is None else job_ids_of(jobs.asked), peer)
                )
            case QueryKind.LOCK:
                locks = LOCKS.plan(call.fields, call.filter)
                return query_reply(locks, one_piece(await self._lock_rows()))
            case QueryKind.FILTER:
                rules = RULES.plan(call.fields, call.filter)
                return query_reply(rules, one_piece(_rules(await self._config.current())))
            case QueryKind.NODE | QueryKind.INSTANCE | QueryKind.GROUP | QueryKind.NETWORK | QueryKind.EXPORT:
                return await _OBJECTS[call.what].query(call, self._config)
            case QueryKind.CLUSTER | QueryKind.OS:
                raise _only_by_opcodes(call.what)
            case _:
                assert_never(call.what)

    async def query_fields(self, call: QueryFields, peer: Peer) -> FieldDefinitions:
        return FieldDefinitions(tuple(_definitions(call.what, call.fields)))

    async def query_jobs(self, call: QueryJobs, peer: Peer) -> Pieces[Rows]:
        plan = JOBS.plan_classic(call.fields)
        rows = self._job_rows(plan, list(dict.fromkeys(call.job_ids)) if call.job_ids else None, peer)
        return classic_reply(plan, rows)

    async def query_nodes(self, call: QueryNodes, peer: Peer) -> Pieces[Rows]:
        return await self._classic(_NODES, call.names, call.fields, lock=call.lock)

    async def query_groups(self, call: QueryGroups, peer: Peer) -> Pieces[Rows]:
        return await self._classic(_GROUPS, call.names, call.fields, lock=call.lock)

    async def query_networks(self, call: QueryNetworks, peer: Peer) -> Pieces[Rows]:
        return await self._classic(_NETWORKS, call.names, call.fields, lock=call.lock)

    async def query_instances(self, call: QueryInstances, peer: Peer) -> Pieces[Rows]:
        return await self._classic(_INSTANCES, call.names, call.fields, lock=call.lock)

    async def query_exports(self, call: QueryExports, peer: Peer) -> Pieces[Rows]:
        return await self._classic(_EXPORTS, call.nodes, ("node", "export"), lock=call.lock, by=("node",))

    async def query_filters(self, call: QueryFilters, peer: Peer) -> Pieces[Rows]:
        plan = RULES.plan_classic(call.fields, RULES.named(call.uuids or (), "uuid"))
        return classic_reply(plan, one_piece(_rules(await self._config.current())))

    async def query_tags(self, call: QueryTags, peer: Peer) -> tuple[str, ...]:
        """Raises: PrerequisiteError: there is no such object."""
        config = await self._config.current()
        if call.kind is TagKind.CLUSTER:
            return tuple(sorted(config.config.cluster.tags))
        return tuple(sorted(_TAGGED[call.kind].tags(call.name, config)))

    async def _classic(
        self,
        objects: _Objects[_Tagged],
        names: Sequence[str],
        fields: Sequence[str],
        *,
        lock: bool,
        by: Sequence[str] = ("name", "uuid"),
    ) -> Pieces[Rows]:
        if lock:
            raise PrerequisiteError("queries that take locks are not supported; ask with lock = false", "wrong_input")
        return await objects.classic(names, fields, self._config, by=by)

    def _job_rows(
        self, plan: Plan[JobRow], job_ids: Sequence[JobId] | None, peer: Peer
    ) -> AsyncGenerator[list[JobRow], None]:
        """The jobs as the peer may see them, which also limits what filters see."""
        if plan.used <= {"id"}:
            return self._jobs.unread(job_ids)
        if job_ids is not None:
            rows = self._jobs.named(job_ids)
        else:
            # a filter on this field does not count (luxid.md 7.3)
            rows = self._jobs.every(archived=any(field.name == "archived" for field in plan.fields))
        viewer = Viewer(peer.uid, peer.role)
        return rows if viewer.sees_all else _seen_by(viewer, rows)

    async def _lock_rows(self) -> list[LockRow]:
        status = await self._wconfd.call_retrying(ListLocksWaitingStatus(), WAIT_S)
        return lock_rows(status, self._queue.awaited())


def _definitions(what: QueryKind, names: Sequence[str] | None) -> list[FieldDefinition]:
    match what:
        case QueryKind.JOB:
            return JOBS.definitions(names)
        case QueryKind.LOCK:
            return LOCKS.definitions(names)
        case QueryKind.FILTER:
            return RULES.definitions(names)
        case QueryKind.NODE | QueryKind.INSTANCE | QueryKind.GROUP | QueryKind.NETWORK | QueryKind.EXPORT:
            return _OBJECTS[what].things.definitions(names)
        case QueryKind.CLUSTER | QueryKind.OS:
            raise _only_by_opcodes(what)
        case _:
            assert_never(what)


def _only_by_opcodes(what: QueryKind) -> InvalidRequest:
    return InvalidRequest(f"{what.value!r} can only be asked for by an opcode, OP_{what.value.upper()}_QUERY")


def _rules(config: ConfigIndex) -> list[FilterRule]:
    return sorted(config.config.filters.values(), key=lambda rule: rule.uuid)


async def _seen_by(viewer: Viewer, pieces: AsyncGenerator[list[JobRow], None]) -> AsyncGenerator[list[JobRow], None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield [JobViews.seen_by(viewer, row) if isinstance(row, JobView) else row for row in piece]
