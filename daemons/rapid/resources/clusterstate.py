"""Resources under /3 that show the cluster: rules, locks, objects, the queue, why jobs wait, who calls."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from starlette.responses import Response

from common.access import Role
from common.conditions import Condition
from common.errors import InvalidRequest, JobLost, NotFound
from common.ids import JobId
from common.objects.filter import FilterRule, asked_rule, rule_tag
from common.objects.kinds import QueryKind
from common.query.qlang import All, Expression
from common.queue.reasons import NO_UID, JobOwner, user_reason, user_trail
from common.queue.ruleloads import RuleLoad
from common.webaccess.rights import Right
from common.wire import structure
from common.words.filters.rulefilter import rule_predicates
from common.words.outcome import no_such_job
from daemons.rapid.calls import Asked, Call, CallParameter, Daemons, Given, Handler
from daemons.rapid.resources.conditions import CONDITIONS, condition_of, merge, tagged
from daemons.rapid.resources.joblists import fetch_job, read_object_filter
from daemons.rapid.resources.parameters import choice, choice_of, job_id_of, text_of, words_of
from protocol.luxi import queue as luxi
from protocol.luxi.daemon import ReadMetrics
from protocol.luxi.queries import (
    LOCK_FIELDS,
    FieldDefinitions,
    Query,
    QueryClusterInfo,
    QueryConfigValues,
    QueryFields,
    read_lock_view,
)
from protocol.luxi.queue import SetDrainFlag, SetJobLimits
from protocol.luxi.why import ExplainJobs, ReadJobWaits, ReadLeftProcesses
from protocol.rapid.cluster import (
    Caller,
    Filter,
    FilterList,
    FilterLoad,
    FilterPatch,
    FilterTrial,
    FilterWish,
    LimitsWish,
    LockList,
    LockOrphan,
    LockState,
    LockWaiters,
    ObjectList,
    ObjectQuery,
    ObjectRows,
    Queue,
)
from protocol.rapid.explanations import (
    Explanation,
    Explanations,
    JobIds,
    LeftProcesses,
    LeftProcessesOfJobs,
    Waits,
    WaitsOfJobs,
)
from protocol.rapid.jobs import PAGE_MOST
from protocol.wconfd.locks import ListOrphanedLocks, OrphanedLocks

# Filter rules over HTTP.
#
# Source: filters design; luxid.md 6.


_FIELDS: Final = tuple(field.name for field in attrs.fields(FilterRule))


async def list_filters(asked: Asked) -> FilterList:
    return FilterList(await fetch_filters(asked.daemons))


async def get_filter(asked: Asked) -> Given:
    """Raises: NotFound."""
    return tagged(await _fetch(asked.daemons, _uuid(asked)))


async def add_filter(asked: Asked) -> Given:
    rule = await _set(asked, _asked_rule(asked, None), None)
    return tagged(rule, 201, {"Location": f"/3/filters/{rule.uuid}"})


async def set_filter(asked: Asked) -> Given:
    """Create the rule, or replace it. Raises: RemoteError: the condition does not hold."""
    return tagged(await _set(asked, _asked_rule(asked, _uuid(asked)), condition_of(asked)))


async def modify_filter(asked: Asked) -> Given:
    """Raises: NotFound. PreconditionFailed: the condition does not hold. InvalidRequest: as for a new rule."""
    uuid = _uuid(asked)

    async def replace(before: Filter, condition: Condition) -> Filter:
        return await _set(asked, _merged_rule(asked, before), condition)

    rule = await merge(asked, f"filter rule '{uuid:.60}'", partial(_fetch, asked.daemons, uuid), replace)
    return tagged(rule)


async def delete_filter(asked: Asked) -> Response:
    """Raises: NotFound. RemoteError: as `set_filter`."""
    await asked.daemons.luxid(luxi.DeleteFilter(_uuid(asked), condition_of(asked)))
    return Response(status_code=204)


async def try_filter(asked: Asked) -> FilterTrial:
    job_ids = await asked.daemons.luxid(luxi.TryFilterRule.of(_asked_rule(asked, None)))
    return FilterTrial(len(job_ids), job_ids)


async def fetch_filters(daemons: Daemons) -> tuple[Filter, ...]:
    """The rules in the order of the chain, with what they do now."""
    found = await daemons.luxid(Query(QueryKind.FILTER, _FIELDS))
    rules = [structure(dict(zip(_FIELDS, values, strict=True)), Filter, "filter rule") for values in found.values()]
    loads = {load.uuid: _load(load) for load in (await daemons.luxid(luxi.ReadRuleLoads())).rules}
    loaded = (attrs.evolve(rule, load=loads.get(rule.uuid), tag=rule_tag(rule)) for rule in rules)
    return tuple(sorted(loaded, key=lambda rule: rule.place))


def _load(load: RuleLoad) -> FilterLoad:
    return FilterLoad(load.rejected, load.held, load.running)


def _asked_rule(asked: Asked, uuid: str | None) -> FilterRule:
    """The rule of the body, set by the caller now. Raises: InvalidRequest: it is malformed, or its text is."""
    wish, now_ns = asked.body_as(FilterWish), time.time_ns()
    predicates = (*wish.predicates, *(rule_predicates(wish.where) if wish.where else ()))
    trail = user_trail(wish.reason or None, "rapid", asked.caller.name, now_ns)
    return asked_rule(wish.action, predicates, priority=wish.priority, reason_trail=trail, uuid=uuid)


def _merged_rule(asked: Asked, before: Filter) -> FilterRule:
    """The rule with what the body changes, set by the caller now. Raises: InvalidRequest: as `_asked_rule`."""
    patch, cleared = asked.patch_as(FilterPatch)
    if "action" in cleared:
        raise InvalidRequest("a filter rule cannot be without an action; DELETE removes the rule")
    has_conditions = patch.predicates is not None or patch.where is not None or "predicates" in cleared
    named = (*(patch.predicates or ()), *(rule_predicates(patch.where) if patch.where else ()))
    priority = before.priority if patch.priority is None else patch.priority
    reason = patch.reason if patch.reason is not None or "reason" in cleared else user_reason(before.reason_trail)
    return asked_rule(
        patch.action or before.action,
        named if has_conditions else before.predicates,
        priority=0 if "priority" in cleared else priority,
        reason_trail=user_trail(reason or None, "rapid", asked.caller.name, time.time_ns()),
        uuid=before.uuid,
    )


async def _set(asked: Asked, rule: FilterRule, condition: Condition | None) -> Filter:
    """The rule as it is then; without its tag, if others have changed it since: they are not to be overwritten by it.

    Raises: InvalidRequest: it can never match, or is malformed. RemoteError: the condition does not hold.
    """
    uuid = await asked.daemons.luxid(luxi.ReplaceFilter.of(rule, condition))
    found = await _fetch(asked.daemons, uuid)
    # the trail says who asked, and when
    is_ours = set(rule.reason_trail) <= set(found.reason_trail)
    return found if is_ours else attrs.evolve(found, tag="")


async def _fetch(daemons: Daemons, uuid: str) -> Filter:
    for rule in await fetch_filters(daemons):
        if rule.uuid == uuid:
            return rule
    raise NotFound(f"there is no filter rule {uuid!r:.60}; GET /3/filters lists them")


def _uuid(asked: Asked) -> str:
    return str(asked.http.path_params["uuid"])


# The lock table over HTTP: who holds each lock, who waits, and since when jobs depend on others.
#
# Source: luxid.md 7.4.


NAMES: Final = CallParameter("names", "names of locks with commas between, e.g. `node/web1,job/14`; without: all")


async def list_locks(asked: Asked) -> LockList:
    names = words_of(asked, NAMES)
    every = read_lock_view(await asked.daemons.luxid(Query(QueryKind.LOCK, LOCK_FIELDS)))
    rows = [row for row in every if names is None or row.name in names]
    holders = {holder for row in rows for holder in row.owners}
    # who may see the holders may see which of them live
    orphans = await asked.daemons.wconfd(ListOrphanedLocks()) if holders else ()
    return LockList(
        tuple(
            LockState(
                row.name, row.mode, row.owners, tuple(LockWaiters(wanted, owners) for wanted, owners in row.pending)
            )
            for row in rows
        ),
        tuple(_orphan(orphan) for orphan in orphans if str(orphan.owner) in holders),
    )


def _orphan(orphan: OrphanedLocks) -> LockOrphan:
    nodes = tuple(sorted({command.node for command in orphan.commands}))
    return LockOrphan(str(orphan.owner), nodes, orphan.since, orphan.ends_at)


# Nodes, groups, networks and instances, read only; LUXI's bare queries; the fields of everything.
#
# Source: luxid.md 7.


# kinds that have a list of their own, with the fields that it shows by itself
LISTED: Final[Mapping[QueryKind, tuple[str, ...]]] = {
    QueryKind.NODE: ("name", "uuid", "role", "group", "pip", "offline", "drained"),
    QueryKind.GROUP: ("name", "uuid", "node_cnt", "node_list"),
    QueryKind.NETWORK: ("name", "uuid", "network", "gateway", "free_count"),
    QueryKind.INSTANCE: ("name", "uuid", "admin_state", "hypervisor", "os"),
}
# kinds that luxid serves, with lists or without
QUERIED: Final = (QueryKind.LOCK, QueryKind.FILTER, *LISTED, QueryKind.EXPORT)

FIELDS: Final = CallParameter("fields", "fields with commas between; `GET /3/fields` lists them")
FILTER: Final = CallParameter("filter", "condition as text, `offline or drained`, or as JSON of the query language")
WHAT: Final = choice(
    "what", "kind of things", [QueryKind.JOB.value, *(kind.value for kind in QUERIED)], QueryKind.JOB.value
)


def list_of(kind: QueryKind) -> Handler:
    """The handler that lists things of a kind."""

    async def list_objects(asked: Asked) -> ObjectList:
        fields = words_of(asked, FIELDS) or LISTED[kind]
        found = await asked.daemons.luxid(Query(kind, fields, _condition(text_of(asked, FILTER))))
        if unknown := [field.name for field in found.fields if field.kind == "unknown"]:
            raise InvalidRequest(f"there is no field {unknown[0]!r:.60}; GET /3/fields?what={kind.value} lists all")
        objects = tuple(dict(zip(fields, values, strict=True)) for values in found.values())
        return ObjectList(objects, tuple(asked.daemons.notes))

    return list_objects


def query_of(kind: QueryKind) -> Handler:
    """The handler that passes a query on to luxid, and its result back."""

    async def query(asked: Asked) -> ObjectRows:
        wish = asked.body_as(ObjectQuery)
        filter = None if wish.filter is None else Expression.from_wire(wish.filter)
        found = await asked.daemons.luxid(Query(kind, wish.fields, filter))
        return ObjectRows(found.fields, found.data, tuple(asked.daemons.notes))

    return query


async def list_fields(asked: Asked) -> FieldDefinitions:
    return await asked.daemons.luxid(QueryFields(QueryKind(choice_of(asked, WHAT)), words_of(asked, FIELDS)))


def _condition(text: str | None) -> Expression | None:
    """The filter, never as a look-up: one that lists names would fail if there is no such thing."""
    expression = read_object_filter(text)
    return None if expression is None else All((expression,))


# The queue as a whole, and facts of the cluster.
#
# Source: luxid.md 2.2, 2.7, 2.8.


async def get_queue(asked: Asked) -> Queue:
    return await fetch_queue(asked.daemons)


async def drain_queue(asked: Asked) -> Queue:
    await asked.daemons.luxid(SetDrainFlag(True))
    return await fetch_queue(asked.daemons)


async def undrain_queue(asked: Asked) -> Queue:
    await asked.daemons.luxid(SetDrainFlag(False))
    return await fetch_queue(asked.daemons)


async def set_queue_limits(asked: Asked) -> Queue:
    """Raises: InvalidRequest: a limit is below 1. Denied."""
    wish = asked.body_as(LimitsWish)
    await asked.daemons.luxid(SetJobLimits(wish.max_running_jobs, wish.max_tracked_jobs))
    return await fetch_queue(asked.daemons)


async def get_cluster(asked: Asked) -> Mapping[str, object]:
    return await asked.daemons.luxid(QueryClusterInfo())


async def fetch_queue(daemons: Daemons) -> Queue:
    drained, until = await daemons.luxid(QueryConfigValues(("drain_flag", "watcher_pause")))
    facts = await daemons.luxid(QueryClusterInfo())
    return Queue(
        bool(drained),
        float(until) if isinstance(until, int | float) else None,
        _count(facts.get("max_running_jobs")),
        _count(facts.get("max_tracked_jobs")),
        int((await daemons.luxid(ReadMetrics())).number("jobs_deferred")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


# Why jobs do not run, what they waited for, what they left running.
#
# Source: DESIGN section 6, "Explain".


async def explain_job(asked: Asked) -> Explanation:
    """Raises: JobLost."""
    job_id = job_id_of(asked)
    (reasons,) = await asked.daemons.luxid(ExplainJobs((job_id,)))
    if reasons is None:
        await fetch_job(asked.daemons, job_id, ("status",))
    return Explanation(job_id, reasons)


async def explain_jobs(asked: Asked) -> Explanations:
    ids = _ids(asked)
    told = await asked.daemons.luxid(ExplainJobs(ids))
    return Explanations(tuple(map(Explanation, ids, told)))


async def get_waits_of_job(asked: Asked) -> Waits:
    """Raises: JobLost."""
    job_id = job_id_of(asked)
    (spans,) = await asked.daemons.luxid(ReadJobWaits((job_id,)))
    if spans is None:
        raise JobLost(no_such_job(job_id), job_id=job_id)
    return Waits(job_id, spans)


async def get_waits_of_jobs(asked: Asked) -> WaitsOfJobs:
    ids = _ids(asked)
    told = await asked.daemons.luxid(ReadJobWaits(ids))
    return WaitsOfJobs(tuple(map(Waits, ids, told)))


async def get_processes_of_job(asked: Asked) -> LeftProcesses:
    """Raises: JobLost."""
    job_id = job_id_of(asked)
    (pids,) = await asked.daemons.luxid(ReadLeftProcesses((job_id,)))
    if not pids:
        await fetch_job(asked.daemons, job_id, ("status",))
    return LeftProcesses(job_id, pids)


async def get_processes_of_jobs(asked: Asked) -> LeftProcessesOfJobs:
    ids = _ids(asked)
    told = await asked.daemons.luxid(ReadLeftProcesses(ids))
    return LeftProcessesOfJobs(tuple(map(LeftProcesses, ids, told)))


def _ids(asked: Asked) -> tuple[JobId, ...]:
    ids: Sequence[JobId] = asked.body_as(JobIds).ids
    if len(ids) > PAGE_MOST:
        raise InvalidRequest(f"ids: at most {PAGE_MOST} at once, got {len(ids)}")
    return tuple(ids)


# Who calls, as this daemon sees it.
#
# Source: DESIGN section 15.


async def tell_caller(asked: Asked) -> Caller:
    """The caller, with all rights."""
    caller = asked.caller
    rights = caller.rights
    owner = JobOwner(NO_UID, caller.unix_user or "", http_user=caller.name)
    return Caller(
        caller.name,
        caller.unix_user,
        None if rights.role is Role.NONE else rights.role.word,
        tuple(sorted(right.value for right in rights.single)),
        "" if caller.is_anonymous else owner.shown,
    )


def caller_row() -> Call:
    """The row of the caller."""
    about = "Tell who calls, and with which rights."
    return Call("GET", "/3/me", tell_caller, about, name="getCaller", gives=Caller, tag="access")


# The rows.

_RIGHT_OF: Final = {
    QueryKind.LOCK: Right.LOCKS_READ,
    QueryKind.FILTER: Right.FILTERS_READ,
    **dict.fromkeys((*LISTED, QueryKind.EXPORT), Right.CLUSTER_READ),
}


def rows() -> Sequence[Call]:
    """The calls about why jobs wait, filter rules, the queue, locks, and what the cluster has."""
    return [*_why(), *_filters(), *_queue(), *_things()]


def _why() -> Iterator[Call]:
    call = partial(Call, tag="jobs", rights=(Right.JOBS_READ,))
    one, many = partial(call, "GET", errors=(404,)), partial(call, "POST", takes=JobIds)
    job = "/3/jobs/{id:int}"
    yield one(f"{job}/why", explain_job, "Say why a job does not run.", gives=Explanation)
    yield many("/3/jobs/why", explain_jobs, "Say why jobs do not run.", gives=Explanations)
    yield one(f"{job}/waits", get_waits_of_job, "Say what a job waited for.", gives=Waits)
    yield many("/3/jobs/waits", get_waits_of_jobs, "Say what jobs waited for.", gives=WaitsOfJobs)
    yield one(f"{job}/processes", get_processes_of_job, "List what an ended job left running.", gives=LeftProcesses)
    yield many(
        "/3/jobs/processes", get_processes_of_jobs, "List what ended jobs left running.", gives=LeftProcessesOfJobs
    )


def _filters() -> Iterator[Call]:
    """404 also where another caller deletes the rule meanwhile; 409: another program has changed the configuration."""
    all_of_them, one = "/3/filters", "/3/filters/{uuid}"
    read = partial(Call, "GET", tag="filters", rights=(Right.FILTERS_READ,))
    write = partial(Call, tag="filters", rights=(Right.FILTERS_WRITE,))
    edit = partial(write, gives=Filter, is_tagged=True, errors=(404, 409, 412), parameters=CONDITIONS, changes=True)
    yield read(all_of_them, list_filters, "List the filter rules, in the order of the chain.", gives=FilterList)
    yield write(
        "POST",
        all_of_them,
        add_filter,
        "Add a filter rule.",
        takes=FilterWish,
        gives=Filter,
        status=201,
        is_tagged=True,
        errors=(404, 409),
        changes=True,
    )
    yield write(
        "POST",
        f"{all_of_them}/try",
        try_filter,
        "Say to which waiting jobs a rule would apply.",
        takes=FilterWish,
        gives=FilterTrial,
    )
    yield read(one, get_filter, "Show a filter rule.", gives=Filter, is_tagged=True, errors=(404,))
    yield edit("PUT", one, set_filter, "Create or replace a filter rule.", takes=FilterWish)
    yield edit("PATCH", one, modify_filter, "Change parts of a filter rule.", takes=FilterPatch, merges=True)
    yield edit("DELETE", one, delete_filter, "Delete a filter rule.", gives=None, is_tagged=False, status=204)


def _queue() -> Iterator[Call]:
    call = partial(Call, tag="queue", gives=Queue)
    write = partial(call, rights=(Right.QUEUE_WRITE,), changes=True)
    yield call("GET", "/3/queue", get_queue, "Show the state of the queue.", rights=(Right.JOBS_READ,))
    yield write("POST", "/3/queue/drain", drain_queue, "Refuse new jobs from now on.")
    yield write("POST", "/3/queue/undrain", undrain_queue, "Take new jobs again.")
    yield write(
        "PUT",
        "/3/queue/limits",
        set_queue_limits,
        "Set how many jobs may run at once.",
        takes=LimitsWish,
        errors=(409,),
    )


def _things() -> Iterator[Call]:
    cluster = partial(Call, "GET", tag="cluster")
    yield cluster(
        "/3/cluster",
        get_cluster,
        "Show facts of the cluster.",
        rights=(Right.CLUSTER_READ,),
        gives=Mapping[str, object],
    )
    yield Call(
        "GET",
        "/3/locks",
        list_locks,
        "Show who holds and who waits for each lock.",
        tag="locks",
        rights=(Right.LOCKS_READ,),
        gives=LockList,
        parameters=(NAMES,),
    )
    yield cluster(
        "/3/fields",
        list_fields,
        "Describe the fields of jobs and of other things.",
        rights=(Right.JOBS_READ, *dict.fromkeys(_RIGHT_OF.values())),
        gives=FieldDefinitions,
        parameters=(WHAT, FIELDS),
    )
    for kind in LISTED:
        yield cluster(
            f"/3/{kind.value}s",
            list_of(kind),
            f"List {kind.value}s.",
            name=f"list{kind.value.capitalize()}s",
            rights=(_RIGHT_OF[kind],),
            gives=ObjectList,
            parameters=(FIELDS, FILTER),
        )
    for kind in QUERIED:
        yield Call(
            "POST",
            f"/3/query/{kind.value}",
            query_of(kind),
            f"Query {kind.value}s as LUXI does.",
            name=f"query{kind.value.capitalize()}s",
            tag="queries",
            rights=(_RIGHT_OF[kind],),
            takes=ObjectQuery,
            gives=ObjectRows,
        )
