"""Query jobs, locks, filter rules and the objects of the cluster.

Source: luxid.md 2.2, 7.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, assert_never

from common.errors import InvalidRequest, PrerequisiteError
from common.ids import JobId
from common.objects.filter import FilterRule
from common.objects.index import ConfigIndex
from common.query.bounds import bounds_of
from common.query.kinds import QueryKind, TagKind
from daemons.luxid.config.configcache import WAIT_S
from daemons.luxid.core.query.engine import Plan
from daemons.luxid.core.query.hopeless import hopeless_states
from daemons.luxid.core.query.jobfields import JobView
from daemons.luxid.core.query.jobs import JOBS, JobRow
from daemons.luxid.core.query.locks import LOCKS, lock_rows
from daemons.luxid.core.query.rules import RULES
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.queue.privacy import Viewer
from daemons.luxid.handlers.queries.jobrows import JobRows, in_order_of, job_ids_of
from daemons.luxid.handlers.queries.objectkinds import OBJECTS, TAGGED, Objects, Sources
from daemons.luxid.handlers.queries.rowreplies import classic_reply, one_piece, query_reply
from daemons.luxid.jobs.jobviews import JobViews
from protocol.client import Client
from protocol.luxi.locks import LockRow
from protocol.luxi.queries import (
    FieldDefinition,
    FieldDefinitions,
    Page,
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

# job fields that Ganeti 3.0 lists, by name; ours are beside them
GANETIS_JOB_FIELDS: Final = (
    "archived",
    "end_ts",
    "id",
    "opend",
    "opexec",
    "oplog",
    "oppriority",
    "opresult",
    "ops",
    "opstart",
    "opstatus",
    "priority",
    "received_ts",
    "start_ts",
    "status",
    "summary",
)


class ObjectQueries:
    """The methods that show things as rows. Replies are JSON in pieces: the many rows are never in memory together."""

    def __init__(
        self, jobs: JobRows, queue: JobQueue, sources: Sources, wconfd: Client, *, is_in_ganeti: bool = False
    ) -> None:
        # whether Ganeti's tools ask, which expect Ganeti's fields
        self._is_in_ganeti = is_in_ganeti
        self._jobs = jobs
        self._queue = queue
        self._sources = sources
        self._config = sources.config
        self._wconfd = wconfd

    async def query(self, call: Query, peer: Peer) -> Pieces[QueryResult]:
        """Raises:
        FilterError.
        InvalidRequest: a page is requested of things that have none.
        PrerequisiteError: a requested name is unknown.
        ConfigurationMissing.
        """
        if call.page is not None:
            _check_page(call.what, call.page)
        match call.what:
            case QueryKind.JOB:
                jobs = JOBS.plan(call.fields, call.filter)
                job_ids = None if jobs.asked is None else job_ids_of(jobs.asked)
                rows = self._job_rows(jobs, job_ids, peer, call)
                return query_reply(jobs, rows, most=None if call.page is None else call.page.limit)
            case QueryKind.LOCK:
                locks = LOCKS.plan(call.fields, call.filter)
                return query_reply(locks, one_piece(await self._lock_rows()))
            case QueryKind.FILTER:
                rules = RULES.plan(call.fields, call.filter)
                return query_reply(rules, one_piece(_rules(await self._config.current())))
            case QueryKind.NODE | QueryKind.INSTANCE | QueryKind.GROUP | QueryKind.NETWORK | QueryKind.EXPORT:
                return await OBJECTS[call.what].query(call, self._sources)
            case QueryKind.CLUSTER | QueryKind.OS:
                raise _only_by_opcodes(call.what)
            case _:
                assert_never(call.what)

    async def query_fields(self, call: QueryFields, peer: Peer) -> FieldDefinitions:
        names = call.fields
        if not names and self._is_in_ganeti and call.what is QueryKind.JOB:
            names = GANETIS_JOB_FIELDS
        return FieldDefinitions(tuple(_definitions(call.what, names)))

    async def query_jobs(self, call: QueryJobs, peer: Peer) -> Pieces[Rows]:
        plan = JOBS.plan_classic(call.fields)
        rows = self._job_rows(plan, list(dict.fromkeys(call.job_ids)) if call.job_ids else None, peer)
        return classic_reply(plan, rows)

    async def query_nodes(self, call: QueryNodes, peer: Peer) -> Pieces[Rows]:
        return await self._classic(OBJECTS[QueryKind.NODE], call.names, call.fields, lock=call.lock)

    async def query_groups(self, call: QueryGroups, peer: Peer) -> Pieces[Rows]:
        return await self._classic(OBJECTS[QueryKind.GROUP], call.names, call.fields, lock=call.lock)

    async def query_networks(self, call: QueryNetworks, peer: Peer) -> Pieces[Rows]:
        return await self._classic(OBJECTS[QueryKind.NETWORK], call.names, call.fields, lock=call.lock)

    async def query_instances(self, call: QueryInstances, peer: Peer) -> Pieces[Rows]:
        return await self._classic(OBJECTS[QueryKind.INSTANCE], call.names, call.fields, lock=call.lock)

    async def query_exports(self, call: QueryExports, peer: Peer) -> Pieces[Rows]:
        return await self._classic(
            OBJECTS[QueryKind.EXPORT], call.nodes, ("node", "export"), lock=call.lock, by=("node",)
        )

    async def query_filters(self, call: QueryFilters, peer: Peer) -> Pieces[Rows]:
        plan = RULES.plan_classic(call.fields, RULES.named(call.uuids or (), "uuid"))
        return classic_reply(plan, one_piece(_rules(await self._config.current())))

    async def query_tags(self, call: QueryTags, peer: Peer) -> tuple[str, ...]:
        """Raises: PrerequisiteError: there is no such object."""
        config = await self._config.current()
        if call.kind is TagKind.CLUSTER:
            return tuple(sorted(config.config.cluster.tags))
        return tuple(sorted(TAGGED[call.kind].tags(call.name, config)))

    async def _classic(
        self,
        objects: Objects,
        names: Sequence[str],
        fields: Sequence[str],
        *,
        lock: bool,
        by: Sequence[str] = ("name", "uuid"),
    ) -> Pieces[Rows]:
        if lock:
            raise PrerequisiteError("queries that take locks are not supported; ask with lock = false", "wrong_input")
        return await objects.classic(names, fields, self._sources, by=by)

    def _job_rows(
        self,
        plan: Plan[JobRow],
        job_ids: Sequence[JobId] | None,
        peer: Peer,
        asked: Query | None = None,
    ) -> AsyncGenerator[list[JobRow], None]:
        """The jobs as the peer may see them, which also limits what filters see; those that cannot be found unread."""
        page, filter = (None, None) if asked is None else (asked.page, asked.filter)
        if job_ids is not None and page is not None:
            # the filter names them: a page of those
            job_ids = in_order_of(page, sorted(job_ids))
        if plan.used <= {"id"}:
            return self._jobs.unread(job_ids, page)
        if job_ids is not None:
            rows = self._jobs.named(job_ids)
        else:
            # a filter on this field does not count (luxid.md 7.3)
            archived = any(field.name == "archived" for field in plan.fields)
            bounds = None if filter is None else bounds_of(filter, "id")
            rows = self._jobs.every(archived=archived, page=page, without=hopeless_states(filter), bounds=bounds)
        viewer = Viewer(peer.uid, peer.role, peer.caller)
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
            return OBJECTS[what].definitions(names)
        case QueryKind.CLUSTER | QueryKind.OS:
            raise _only_by_opcodes(what)
        case _:
            assert_never(what)


def _check_page(what: QueryKind, page: Page) -> None:
    """Raises: InvalidRequest: these things have no pages, or the page has no room."""
    if what is not QueryKind.JOB:
        raise InvalidRequest(f"a page can be requested of jobs only, not of {what.value!r}")
    if page.limit < 1:
        raise InvalidRequest(f"a page must have room for at least 1 row, got {page.limit}")


def _only_by_opcodes(what: QueryKind) -> InvalidRequest:
    return InvalidRequest(f"{what.value!r} can only be asked for by an opcode, OP_{what.value.upper()}_QUERY")


def _rules(config: ConfigIndex) -> list[FilterRule]:
    return sorted(config.config.filters.values(), key=lambda rule: rule.uuid)


async def _seen_by(viewer: Viewer, pieces: AsyncGenerator[list[JobRow], None]) -> AsyncGenerator[list[JobRow], None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield [JobViews.seen_by(viewer, row) if isinstance(row, JobView) else row for row in piece]
