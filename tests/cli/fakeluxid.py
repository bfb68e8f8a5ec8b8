"""A luxid with jobs that do what the test says: the real server and messages, a dictionary for a queue."""

import contextlib
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from common.access import Role
from common.errors import Conflict, GantryError, PrerequisiteError, Unavailable
from common.ids import JobId
from common.objects.filter import FilterRule
from common.objects.kinds import QueryKind
from common.query.predicate import NO_VALUE, Field, compile_expression
from common.queue.jobs import Job, JobOp
from daemons.luxid.core.filters.filtering import Trial
from protocol.luxi.feed import FeedBegin, Subscribe
from protocol.luxi.jobs import (
    ArchiveJob,
    AutoArchiveJobs,
    CancelJob,
    CancelJobs,
    ChangeJobPriority,
    ChangeJobs,
    JobOutput,
    ReadJobOutput,
    SubmitJob,
    SubmitManyJobs,
    SubmitOnce,
)
from protocol.luxi.queries import (
    Query,
    QueryClusterInfo,
    QueryConfigValues,
    QueryFields,
    QueryFilters,
    QueryJobs,
)
from protocol.luxi.queue import DeleteFilter, ReplaceFilter, SetDrainFlag, SetWatcherPause, TryFilterRule
from protocol.luxi.why import ExplainJobs, ReadJobWaits
from protocol.messages import Request
from protocol.peer import Peer
from protocol.serving.route import AnyRoute, Route, Stream
from protocol.serving.server import ServerRules, serve_unix
from protocol.serving.service import Service
from tests.cli.fakefeed import FakeFeed
from tests.support.filterrules import filter_rule

FINAL = ("success", "error", "canceled")
AT = [1_700_000_000, 0]


@attrs.define
class FakeJob:
    """A job of one opcode unless `ops` has more."""

    job_id: int
    status: str = "queued"
    ops: list[dict[str, Any]] = attrs.field(factory=lambda: [{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}])
    summary: list[str] = attrs.field(factory=lambda: ["TEST_DELAY(1.0)"])
    results: list[Any] = attrs.field(factory=lambda: [None])
    op_statuses: list[str] | None = None
    priority: int = 0
    log: list[list[Any]] = attrs.field(factory=list)
    output: str = ""
    start_ts: list[int] | None = None
    end_ts: list[int] | None = None
    archived: bool = False
    user: str = ""
    batch: str = ""
    name: str = ""
    labels: dict[str, str] = attrs.field(factory=dict)
    begin_ts: list[int] | None = None
    uses: dict[str, int] = attrs.field(factory=dict)

    def field(self, name: str) -> Any:
        count = len(self.ops)
        values = {
            "id": self.job_id,
            "opresult": self.results,
            "opstatus": self.op_statuses or [self.status] * count,
            "oplog": [self.log, *([] for _ in range(count - 1))],
            "opstart": [self.start_ts] * count,
            "opexec": [self.start_ts] * count,
            "opend": [self.end_ts] * count,
            "oppriority": [self.priority] * count,
            "received_ts": AT,
            "tries": [[] for _ in range(count)],
            "opid": [op["OP_ID"] for op in self.ops],
            "summary_text": ",".join(self.summary),
        }
        if name not in values and not hasattr(self, name):
            raise PrerequisiteError(f"unknown field {name}", "wrong_input")
        return values[name] if name in values else getattr(self, name)


class FakeLuxid:
    """Listens at `path` from a thread of its own; `calls` keeps every request it got."""

    def __init__(self, path: Path, *jobs: FakeJob) -> None:
        self.path = path
        self.jobs = {job.job_id: job for job in jobs}
        self.calls: list[Any] = []
        # key of a submission -> what became of it
        self.keys: dict[str, Any] = {}
        self.is_drained = False
        self.watcher_pause: float | None = None
        # rows of cells, as a Query of locks is answered
        self.locks: list[Any] = []
        # job id -> reasons
        self.reasons: dict[int, list[dict[str, Any]]] = {}
        # job id -> spans
        self.waits: dict[int, list[dict[str, Any]]] = {}
        # uuid -> rule
        self.rules: dict[str, dict[str, Any]] = {}
        # fields of the nodes
        self.nodes: list[dict[str, Any]] = []
        self._changed = trio.Event()
        self._feeds: list[FakeFeed] = []
        self.token: trio.lowlevel.TrioToken | None = None

    def change(self, job_id: int, **values: Any) -> None:
        """Set attributes of a job and wake all that wait for it."""

        def set_them() -> None:
            for name, value in values.items():
                setattr(self.jobs[job_id], name, value)
            for feed in self._feeds:
                feed.tell(job_id)
            self._changed.set()
            self._changed = trio.Event()

        assert self.token is not None
        trio.from_thread.run_sync(set_them, trio_token=self.token)

    def drop_subscribers(self) -> None:
        """As luxid does with readers that are too slow."""

        def drop_them() -> None:
            for feed in self._feeds:
                feed.stream.end(Unavailable("this subscriber is too slow"))
            self._feeds.clear()

        assert self.token is not None
        trio.from_thread.run_sync(drop_them, trio_token=self.token)

    def is_waited_for(self, job_id: int) -> bool:
        """A caller knows the job's present state and waits for another."""
        return any(isinstance(call, Subscribe) and job_id in (call.ids or ()) for call in self.calls)

    def routes(self) -> list[AnyRoute]:
        """The reply."""
        table: dict[type[Request[Any]], Callable[[Any], Awaitable[Any]]] = {
            SubmitJob: self._submit,
            SubmitManyJobs: self._submit_many,
            SubmitOnce: self._submit_once,
            CancelJob: self._cancel,
            CancelJobs: self._cancel_many,
            ChangeJobPriority: self._change_priority,
            ChangeJobs: self._change_many,
            ArchiveJob: self._archive,
            AutoArchiveJobs: self._autoarchive,
            SetDrainFlag: self._set_drain_flag,
            SetWatcherPause: self._set_watcher_pause,
            Query: self._query_rows,
            QueryFields: self._query_fields,
            QueryFilters: self._query_filters,
            ExplainJobs: self._explain_jobs,
            ReadJobWaits: self._read_job_waits,
            ReplaceFilter: self._replace_filter,
            DeleteFilter: self._delete_filter,
            TryFilterRule: self._try_filter_rule,
            QueryJobs: self._query,
            QueryConfigValues: self._config_values,
            QueryClusterInfo: self._cluster_info,
            ReadJobOutput: self._read_output,
            Subscribe: self._subscribe,
        }
        return [Route(kind, self._kept(handler), role=Role.READ) for kind, handler in table.items()]

    def _kept(self, handler: Any) -> Any:
        async def keep(call: Any, _: Peer) -> Any:
            self.calls.append(call)
            return await handler(call)

        return keep

    async def _submit(self, call: SubmitJob) -> int:
        return self._take(call.job)

    async def _submit_many(self, call: SubmitManyJobs) -> list[Any]:
        return [[False, "the disk is full"] if len(job) > 8 else [True, self._take(job)] for job in call.jobs]

    async def _submit_once(self, call: SubmitOnce) -> Any:
        is_earlier = call.key in self.keys
        if not is_earlier:
            self.keys[call.key] = [[True, self._take(job)] for job in call.jobs]
        return {"answers": self.keys[call.key], "is_earlier": is_earlier}

    def _take(self, ops: Any) -> int:
        job_id = max(self.jobs, default=0) + 1
        names = [op["OP_ID"].removeprefix("OP_") for op in ops]
        self.jobs[job_id] = FakeJob(job_id, ops=list(ops), summary=names, results=[None] * len(ops))
        return job_id

    async def _cancel(self, call: CancelJob) -> Any:
        job = self.jobs.get(call.job_id)
        if job is None:
            return [False, "there is no such job"]
        if job.status in FINAL:
            return [False, f"job {job.job_id} is already final ({job.status})"]
        job.status = "canceled"
        return [True, f"Job {job.job_id} has been canceled"]

    async def _cancel_many(self, call: CancelJobs) -> Any:
        return [await self._cancel(CancelJob(job_id, call.kill)) for job_id in call.job_ids]

    async def _change_many(self, call: ChangeJobs) -> Any:
        priority = call.change.priority
        if priority is None:
            return [[True, f"job {job_id} was changed"] for job_id in call.job_ids]
        return [await self._change_priority(ChangeJobPriority(job_id, priority)) for job_id in call.job_ids]

    async def _change_priority(self, call: ChangeJobPriority) -> Any:
        self.jobs[call.job_id].priority = call.priority
        return [True, f"Priority of job {call.job_id} is {call.priority}"]

    async def _archive(self, call: ArchiveJob) -> bool:
        job = self.jobs.get(call.job_id)
        if job is not None and job.batch:
            raise Conflict("notifications for its batch are still pending")
        if job is None or job.status not in FINAL or job.archived:
            return False
        job.archived = True
        return True

    async def _autoarchive(self, call: AutoArchiveJobs) -> Any:
        return [sum(job.status in FINAL for job in self.jobs.values()), 0]

    async def _set_drain_flag(self, call: SetDrainFlag) -> bool:
        self.is_drained = call.drain
        return True

    async def _set_watcher_pause(self, call: SetWatcherPause) -> float | None:
        self.watcher_pause = call.until
        return call.until

    async def _query_rows(self, call: Query) -> Any:
        if call.what is QueryKind.LOCK:
            return {"fields": [_definition(name) for name in call.fields], "data": self.locks}
        if call.what is QueryKind.FILTER:
            things: list[Any] = list(self.rules.values())
            read: Callable[[Any, str], Any] = _cell_of_rule
        elif call.what is QueryKind.NODE:
            things, read = list(self.nodes), lambda node, name: node[name]
        else:
            things = [job for job in self.jobs.values() if "archived" in call.fields or not job.archived]
            read = _cell_of_job
        if call.filter is not None:
            test = compile_expression(call.filter, lambda name: Field[Any](lambda thing: read(thing, name)))
            things = [thing for thing in things if test(thing)]
        rows = [[read(thing, name) for name in call.fields] for thing in things]
        data = [[[3, None] if value in (None, NO_VALUE) else [0, value] for value in row] for row in rows]
        return {"fields": [_definition(name) for name in call.fields], "data": data}

    async def _query_fields(self, call: QueryFields) -> Any:
        return {"fields": [_definition(name) for name in call.fields or ("id", "status", "summary")]}

    async def _query_filters(self, call: QueryFilters) -> Any:
        rules = [rule for uuid, rule in sorted(self.rules.items()) if call.uuids is None or uuid in call.uuids]
        return [[rule[name] for name in call.fields] for rule in rules]

    async def _explain_jobs(self, call: ExplainJobs) -> Any:
        return [self.reasons.get(job_id, []) if job_id in self.jobs else None for job_id in call.job_ids]

    async def _read_job_waits(self, call: ReadJobWaits) -> Any:
        return [self.waits.get(job_id, []) if job_id in self.jobs else None for job_id in call.job_ids]

    async def _replace_filter(self, call: ReplaceFilter) -> str:
        uuid = call.uuid or f"00000000-0000-4000-8000-{len(self.rules) + 1:012}"
        self.rules[uuid] = {
            "uuid": uuid,
            "watermark": max(self.jobs, default=0),
            "priority": call.priority,
            "predicates": list(call.predicates),
            "action": call.action,
            "reason_trail": [*call.reason_trail, ["luxid", "", 1]],
        }
        return uuid

    async def _delete_filter(self, call: DeleteFilter) -> None:
        if self.rules.pop(call.uuid, None) is None:
            raise GantryError(f"there is no filter rule '{call.uuid}'; list them with 'gnt-filter list'")

    async def _try_filter_rule(self, call: TryFilterRule) -> list[int]:
        rule = _rule(call.uuid or "00000000", max(self.jobs, default=0), call.priority, call.predicates, call.action)
        keys = ("uuid", "watermark", "priority", "predicates", "action")
        trial = Trial.of(rule, [_rule(*(each[key] for key in keys)) for each in self.rules.values()])
        waiting = [job for job in self.jobs.values() if job.status in ("queued", "waiting")]
        jobs = [Job(JobId(each.job_id), tuple(JobOp(input=op) for op in each.ops)) for each in waiting]
        return [job.job_id for job in jobs if trial.is_for(job)]

    async def _query(self, call: QueryJobs) -> Any:
        if call.job_ids is None:
            return [self._row(job, call.fields) for job in self.jobs.values() if not job.archived]
        return [
            self._row(self.jobs[job_id], call.fields)
            if job_id in self.jobs
            else [job_id if name == "id" else None for name in call.fields]
            for job_id in dict.fromkeys(call.job_ids)
        ]

    def _row(self, job: FakeJob, fields: Any) -> list[Any]:
        return [job.field(name) for name in fields]

    async def _config_values(self, call: QueryConfigValues) -> Any:
        values = {"drain_flag": self.is_drained, "watcher_pause": self.watcher_pause}
        return [values.get(name) for name in call.names]

    async def _cluster_info(self, call: QueryClusterInfo) -> Any:
        return {
            "name": "lab",
            "max_running_jobs": 20,
            "tags": [],
            "enabled_hypervisors": ["kvm"],
            "hvparams": {"kvm": {"acpi": True, "boot_order": "disk"}, "xen": {}},
        }

    async def _subscribe(self, call: Subscribe) -> Stream[FeedBegin]:
        self._feeds.append(FakeFeed(call, self.jobs))
        return self._feeds[-1].begin()

    async def _read_output(self, call: ReadJobOutput) -> JobOutput:
        job = self.jobs[call.job_id]
        with trio.move_on_after(call.timeout):
            while call.timeout and job.status not in FINAL and call.offset >= len(job.output):
                await self._changed.wait()
        return JobOutput(job.output[call.offset :], len(job.output), job.status in FINAL)


def _cell_of_job(job: FakeJob, name: str) -> Any:
    value = job.field(name)
    return NO_VALUE if value is None else value


def _rule(uuid: str, watermark: int, priority: int, predicates: Sequence[Any], action: Any) -> FilterRule:
    return filter_rule(
        watermark=JobId(watermark),
        priority=priority,
        predicates=tuple(predicates),
        action=action,
        reason_trail=(),
        uuid=uuid,
    )


def _cell_of_rule(rule: dict[str, Any], name: str) -> Any:
    return rule[name]


def _definition(name: str) -> dict[str, str]:
    known = {"id": "number", "status": "text", "summary": "other"}
    return {"name": name, "title": name.upper(), "kind": known.get(name, "unknown"), "doc": f"the job's {name}"}


@contextlib.contextmanager
def fake_luxid(path: Path, *jobs: FakeJob) -> Iterator[FakeLuxid]:
    """A fake that listens while the block runs."""
    fake = FakeLuxid(path, *jobs)
    with serving(path, fake.routes()) as token:
        fake.token = token
        yield fake


@contextlib.contextmanager
def serving(path: Path, routes: Sequence[AnyRoute]) -> Iterator[trio.lowlevel.TrioToken]:
    """Answer calls at `path` from a thread of its own while the block runs; yields that thread's entrance."""
    scope = trio.CancelScope()
    ready: queue.SimpleQueue[trio.lowlevel.TrioToken] = queue.SimpleQueue()

    async def serve() -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_unix, path, Service(routes), ServerRules())
                ready.put(trio.lowlevel.current_trio_token())

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    token = ready.get()
    try:
        yield token
    finally:
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        thread.join()
