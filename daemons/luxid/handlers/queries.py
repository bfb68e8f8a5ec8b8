"""Queries, and their replies in rows."""

import bisect
import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar, assert_never

import attrs

from common.errors import InvalidRequest, PrerequisiteError, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.objects.filter import FilterRule
from common.objects.index import ConfigIndex, Named, find_named
from common.objects.kinds import QueryKind, TagKind
from common.query.qlang import Expression, NumericRange, bounds_of
from common.queue.jobs import FINAL, Job, JobState
from common.system.inthread import give_way, in_thread
from common.system.log import get_log
from common.wire import read_job_id, unstructure
from daemons.luxid.config import WAIT_S, ConfigCache
from daemons.luxid.core.query.engine import Need, QueryPlan, RowsWithNotes, Things
from daemons.luxid.core.query.instances import INSTANCES, InstanceRow, instance_rows
from daemons.luxid.core.query.jobs import JOBS, JobRow, JobView, UnreadJob, possible_states, words_of
from daemons.luxid.core.query.locks import LOCKS, lock_rows
from daemons.luxid.core.query.nodes import NODES, NodeRow, node_rows
from daemons.luxid.core.query.objects import EXPORTS, GROUPS, NETWORKS, RULES, ExportRow, export_rows, rows_of
from daemons.luxid.core.query.wordindex import is_about_words
from daemons.luxid.core.queue.jobqueue import JobQueue
from daemons.luxid.core.rights import Viewer
from daemons.luxid.files.store import Store
from daemons.luxid.jobs import JobTable, JobViews
from protocol.client import Client
from protocol.luxi.queries import (
    FieldDefinition,
    FieldDefinitions,
    LockRow,
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
from protocol.serving.route import Pieces
from protocol.wconfd.locks import ListLocksWaitingStatus

# Replies of rows, as JSON in pieces: rows are many, and are never all in memory.
#
# Source: luxid.md 2.2, 7.


T = TypeVar("T")

# most rows, and about as many values of them, that are made and encoded before other tasks run: a millisecond
_BATCH: Final = 200
_VALUES: Final = 1000
# size from which the next pieces are made of fewer rows
_PIECE_BYTES: Final = 256 * 2**10


async def one_piece(things: Sequence[T]) -> AsyncGenerator[Sequence[T], None]:
    """Things that already exist, for the replies below."""
    yield things


def query_reply(
    plan: QueryPlan[T], pieces: AsyncGenerator[Sequence[T], None], notes: Sequence[str] = (), *, most: int | None = None
) -> Pieces[QueryResult]:
    """Definitions and rows of cells; at the end these notes, and the plan's on the filter.

    Args: most: maximum number of rows, >= 1; None: no limit.
    """
    head = b'{"fields":%b,"data":[' % ascii_json(unstructure(plan.definitions()))
    return Pieces(_framed(head, _encode(plan, plan.rows, pieces, most), b"]}"), lambda: [*notes, *plan.notes()])


def classic_reply(plan: QueryPlan[T], pieces: AsyncGenerator[Sequence[T], None]) -> Pieces[Rows]:
    """Rows of bare values."""
    return Pieces(_framed(b"[", _encode(plan, plan.classic_rows, pieces), b"]"))


async def _encode(
    plan: QueryPlan[T],
    make: Callable[[Sequence[T]], Sequence[object]],
    pieces: AsyncGenerator[Sequence[T], None],
    most: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """The rows of things as JSON, in pieces, without the brackets around the whole."""
    most_rows = batch = max(1, min(_BATCH, _VALUES // max(1, len(plan.used))))
    separator = b""
    left = most
    async with aclosing(pieces):
        async for piece in pieces:
            start = 0
            while start < len(piece):
                rows = make(piece[start : start + batch])
                start += batch
                if left is not None:
                    rows = rows[:left]
                    left -= len(rows)
                if rows:
                    encoded = ascii_json(rows)[1:-1]
                    batch = _next_batch(batch, most_rows, len(encoded))
                    yield separator + encoded
                    separator = b","
                if left == 0:
                    return
                await give_way()


def _next_batch(batch: int, most: int, size: int) -> int:
    """Reduce the number of rows when they are large, and raise it again, up to `most`, when they are small."""
    return max(1, batch // 4) if size > _PIECE_BYTES else min(most, batch * 2)


async def _framed(head: bytes, inner: AsyncGenerator[bytes, None], tail: bytes) -> AsyncGenerator[bytes, None]:
    yield head
    async with aclosing(inner):
        async for piece in inner:
            yield piece
    yield tail


# Rows of jobs, from memory and from disk, in pieces so that other tasks run in between.
#
# Source: luxid.md 7.2, 7.3.


_PREFIX: Final = "job-"
_log: Final = get_log(__name__)


class JobRows:
    """The jobs of the queue and the archive, in the form from which fields are read."""

    def __init__(self, table: JobTable, store: Store, views: JobViews, queue: JobQueue) -> None:
        self._table = table
        self._store = store
        self._views = views
        self._queue = queue

    async def named(self, job_ids: Sequence[JobId]) -> AsyncGenerator[list[JobRow], None]:
        """These jobs, in this order, archived ones included; for a job that does not exist an UnreadJob.

        Raises: Unavailable: a job's file cannot be read at the moment.
        """
        async with aclosing(self._rows(job_ids, is_lenient=False)) as batches:
            async for batch in batches:
                yield batch

    async def every(
        self,
        *,
        archived: bool,
        page: Page | None = None,
        states: frozenset[JobState] = frozenset(JobState),
        bounds: NumericRange | None = None,
        filter: Expression | None = None,
    ) -> AsyncGenerator[list[JobRow], None]:
        """All live jobs, by id, and archived ones if wanted; or those of them at the place and in the order of a page.

        Unreadable jobs are left out.

        Args:
            states: live jobs that cannot be shown in one of them are left out unread, as far as that is known; a job
                that comes into one of them while the others are read may be left out, too.
            bounds: of the ids: files of others are not read; None: none.
            filter: jobs whose words cannot pass it are left out unread, where that is known; None: none are.
        Raises: Unavailable: the archive cannot be listed at the moment.
        """
        job_ids = self._live(states)
        if filter is not None and is_about_words(filter):
            await self._index_words()
            hopeless = self._table.words.cannot_pass(filter)
            job_ids = [job_id for job_id in job_ids if job_id not in hopeless]
        if archived:
            job_ids = sorted({*job_ids, *await self._set_aside()})
        job_ids = in_order_of(page, job_ids, bounds)
        # an UnreadJob was archived since the ids were listed, or removed from the archive
        async with aclosing(self._rows(job_ids, is_lenient=True)) as batches:
            async for batch in batches:
                yield [row for row in batch if isinstance(row, JobView) and (archived or not row.is_archived)]

    async def _index_words(self) -> None:
        """Make the words of the jobs that are new or have changed; others have their turn meanwhile."""
        index = self._table.words
        for ids in index.stale():
            jobs = (job for number in ids if (job := self._table.in_memory(JobId(number))) is not None)
            unended = (job for job in jobs if job.next_index is not None)
            index.make(ids, ((job.job_id, words_of(self._views.of(job))) for job in unended))
            await give_way()

    def _live(self, states: frozenset[JobState]) -> list[JobId]:
        """The live jobs that may be shown in one of these states, ascending."""
        if (found := self._queue.perhaps_in(states)) is not None:
            return sorted(found)
        without, ended = FINAL - states, self._queue.ended.get
        job_ids = self._table.ids()
        return [job_id for job_id in job_ids if ended(job_id) not in without] if without else job_ids

    async def _set_aside(self) -> list[JobId]:
        try:
            return await in_thread(_archived_ids, self._store.paths.archive)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Unavailable(f"the archive cannot be listed: {reason}; try again") from error

    async def unread(
        self, job_ids: Sequence[JobId] | None, page: Page | None = None
    ) -> AsyncGenerator[list[JobRow], None]:
        """These jobs, or all live ones, without reading their files: for queries of ids only."""
        for batch in _batches(in_order_of(page, self._table.ids()) if job_ids is None else job_ids):
            yield [UnreadJob(job_id) for job_id in batch]
            await give_way()

    async def _rows(self, job_ids: Sequence[JobId], *, is_lenient: bool) -> AsyncGenerator[list[JobRow], None]:
        for batch in _batches(job_ids):
            live = await self._table.get_many(batch, is_lenient=is_lenient)
            await give_way()
            absent = [job_id for job_id, job in zip(batch, live, strict=True) if job is None]
            archived = await self._archived(absent, is_lenient=is_lenient) if absent else {}
            yield [self._row(job_id, job, archived) for job_id, job in zip(batch, live, strict=True)]

    def _row(self, job_id: JobId, job: Job | None, archived: dict[JobId, Job]) -> JobRow:
        if job is not None:
            return self._views.of(job)
        found = archived.get(job_id)
        return JobView(found, is_archived=True) if found is not None else UnreadJob(job_id)

    async def _archived(self, job_ids: Sequence[JobId], *, is_lenient: bool) -> dict[JobId, Job]:
        def read() -> dict[JobId, Job]:
            jobs = ((job_id, self._read_archived(job_id, is_lenient=is_lenient)) for job_id in job_ids)
            return {job_id: job for job_id, job in jobs if job is not None}

        return await in_thread(read)

    def _read_archived(self, job_id: JobId, *, is_lenient: bool) -> Job | None:
        try:
            return self._store.find_archived(job_id)
        except Unavailable as error:
            if not is_lenient:
                raise
            _log.warning("job.unreadable", job=job_id, reason=error, effect="left out of a list")
            return None


def job_ids_of(values: Sequence[str | int]) -> list[JobId]:
    """The ids that a filter names, each once; numbers may be written as text.

    Raises: InvalidRequest: a value is not an id.
    """
    try:
        return list(dict.fromkeys(read_job_id(value) for value in values))
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def in_order_of(page: Page | None, job_ids: list[JobId], bounds: NumericRange | None = None) -> list[JobId]:
    """The ids within bounds, from the place of a page on, and in its order; without a page from the first on.

    Args: job_ids: ascending; without a page and bounds in any order, which stays.
    """
    if page is None and bounds is None:
        return job_ids
    low, high = (-math.inf, math.inf) if bounds is None else (bounds.low, bounds.high)
    if page is not None and page.after is not None:
        low, high = (low, min(high, page.after - 1)) if page.descending else (max(low, page.after + 1), high)
    found = job_ids[bisect.bisect_left(job_ids, low) : bisect.bisect_right(job_ids, high)]
    return found[::-1] if page is not None and page.descending else found


def _batches(job_ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    return (job_ids[start : start + _BATCH] for start in range(0, len(job_ids), _BATCH))


def _archived_ids(archive: Path) -> list[JobId]:
    """List the archive, in a thread, because a large one takes long. Raises: OSError: a folder cannot be listed."""
    names = [name for _, _, files in os.walk(archive, onerror=_check_gone) for name in files]
    numbers = [name[len(_PREFIX) :] for name in names if name.startswith(_PREFIX)]
    return [JobId(int(number)) for number in numbers if number.isascii() and number.isdigit()]


def _check_gone(error: OSError) -> None:
    """Raises: OSError: the folder is there; without its jobs a list would be taken for whole."""
    if not isinstance(error, FileNotFoundError):
        raise error


# The kinds of objects that queries show: how their rows are found, and who is asked for what is live in them.
#
# Source: luxid.md 2.2, 7.


Needs = AbstractSet[Need]


class LiveData(Protocol):
    """What node daemons tell for rows. Cancellation: calls under way are given up."""

    async def of_nodes(self, rows: Sequence[NodeRow], needs: Needs) -> RowsWithNotes[NodeRow]: ...

    async def of_instances(self, rows: Sequence[InstanceRow], needs: Needs) -> RowsWithNotes[InstanceRow]: ...

    async def of_exports(self, rows: Sequence[ExportRow], needs: Needs) -> RowsWithNotes[ExportRow]: ...


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
    ask: Callable[[LiveData, Sequence[R], Needs], Awaitable[RowsWithNotes[R]]] | None = None
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

    async def _told(self, plan: QueryPlan[R], rows: Sequence[R], live: LiveData | None) -> RowsWithNotes[R]:
        """The rows, with what node daemons tell if the plan needs it."""
        if live is None or self.ask is None or not plan.needs:
            return RowsWithNotes(rows)
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


# Query jobs, locks, filter rules and the objects of the cluster.
#
# Source: luxid.md 2.2, 7.


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
        plan: QueryPlan[JobRow],
        job_ids: Sequence[JobId] | None,
        peer: Peer,
        asked: Query | None = None,
    ) -> AsyncGenerator[list[JobRow], None]:
        """The jobs as the peer may see them, which also limits what filters see; those that cannot be found unread."""
        page, filter = (None, None) if asked is None else (asked.page, asked.filter)
        if job_ids is not None and page is not None:
            # the filter names them: a page of those
            job_ids = in_order_of(page, sorted(job_ids))
        viewer = Viewer(peer.uid, peer.role, peer.caller)
        if plan.used <= {"id"}:
            return self._jobs.unread(job_ids, page)
        if job_ids is not None:
            rows = self._jobs.named(job_ids)
        else:
            # a filter on this field does not count (luxid.md 7.3)
            archived = any(field.name == "archived" for field in plan.fields)
            bounds = None if filter is None else bounds_of(filter, "id")
            # what others see of a job may have words that it has not
            sought = filter if viewer.sees_all else None
            rows = self._jobs.every(
                archived=archived, page=page, states=possible_states(filter), bounds=bounds, filter=sought
            )
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
