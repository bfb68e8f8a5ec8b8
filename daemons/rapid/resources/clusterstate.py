"""Resources under /3 that show the cluster: rules, locks, objects, the queue, why jobs wait, who calls."""

import time
from collections.abc import Mapping, Sequence
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
from common.wire import structure
from common.words.filters.rulefilter import rule_predicates
from daemons.rapid.calls import Asked, Call, CallParameter, Daemons, Given, Handler
from daemons.rapid.resources.conditions import condition_of, merge, tagged
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


class FilterRuleCalls:
    """The calls about filter rules."""

    async def list_filters(self, asked: Asked) -> FilterList:
        return FilterList(await fetch_filters(asked.daemons))

    async def get_filter(self, asked: Asked) -> Given:
        """Raises: NotFound."""
        return tagged(await _fetch(asked.daemons, _uuid(asked)))

    async def add_filter(self, asked: Asked) -> Given:
        rule = await _set(asked, _asked_rule(asked, None), None)
        return tagged(rule, 201, {"Location": f"/3/filters/{rule.uuid}"})

    async def replace_filter(self, asked: Asked) -> Given:
        """Create the rule, or replace it. Raises: RemoteError: the condition does not hold."""
        return tagged(await _set(asked, _asked_rule(asked, _uuid(asked)), condition_of(asked)))

    async def patch_filter(self, asked: Asked) -> Given:
        """Raises: NotFound. PreconditionFailed: the condition does not hold. InvalidRequest: as for a new rule."""
        uuid = _uuid(asked)

        async def replace(before: Filter, condition: Condition) -> Filter:
            return await _set(asked, _merged_rule(asked, before), condition)

        rule = await merge(asked, f"filter rule '{uuid:.60}'", partial(_fetch, asked.daemons, uuid), replace)
        return tagged(rule)

    async def delete_filter(self, asked: Asked) -> Response:
        """Raises: NotFound. RemoteError: as `replace_filter`."""
        await asked.daemons.luxid(luxi.DeleteFilter(_uuid(asked), condition_of(asked)))
        return Response(status_code=204)

    async def try_filter(self, asked: Asked) -> FilterTrial:
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


class LockCalls:
    """The call that shows locks."""

    async def list_locks(self, asked: Asked) -> LockList:
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


# The queue as a whole, and facts of the cluster.
#
# Source: luxid.md 2.2, 2.7, 2.8.


class QueueStateCalls:
    """The calls about the queue."""

    async def get_queue(self, asked: Asked) -> Queue:
        return await fetch_queue(asked.daemons)

    async def drain(self, asked: Asked) -> Queue:
        await asked.daemons.luxid(SetDrainFlag(True))
        return await fetch_queue(asked.daemons)

    async def undrain(self, asked: Asked) -> Queue:
        await asked.daemons.luxid(SetDrainFlag(False))
        return await fetch_queue(asked.daemons)

    async def set_limits(self, asked: Asked) -> Queue:
        """Raises: InvalidRequest: a limit is below 1. Denied."""
        wish = asked.body_as(LimitsWish)
        await asked.daemons.luxid(SetJobLimits(wish.max_running_jobs, wish.max_tracked_jobs))
        return await fetch_queue(asked.daemons)

    async def get_cluster(self, asked: Asked) -> Mapping[str, object]:
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


class WhyJobs:
    """The calls that explain."""

    async def explain_job(self, asked: Asked) -> Explanation:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (reasons,) = await asked.daemons.luxid(ExplainJobs((job_id,)))
        if reasons is None:
            await fetch_job(asked.daemons, job_id, ("status",))
        return Explanation(job_id, reasons)

    async def explain_jobs(self, asked: Asked) -> Explanations:
        ids = _ids(asked)
        told = await asked.daemons.luxid(ExplainJobs(ids))
        return Explanations(tuple(map(Explanation, ids, told)))

    async def read_waits(self, asked: Asked) -> Waits:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (spans,) = await asked.daemons.luxid(ReadJobWaits((job_id,)))
        if spans is None:
            raise JobLost(f"there is no job {job_id}, neither in the queue nor in the archive", job_id=job_id)
        return Waits(job_id, spans)

    async def read_waits_of_jobs(self, asked: Asked) -> WaitsOfJobs:
        ids = _ids(asked)
        told = await asked.daemons.luxid(ReadJobWaits(ids))
        return WaitsOfJobs(tuple(map(Waits, ids, told)))

    async def read_left_processes(self, asked: Asked) -> LeftProcesses:
        """Raises: JobLost."""
        job_id = job_id_of(asked)
        (pids,) = await asked.daemons.luxid(ReadLeftProcesses((job_id,)))
        if not pids:
            await fetch_job(asked.daemons, job_id, ("status",))
        return LeftProcesses(job_id, pids)

    async def read_left_processes_of_jobs(self, asked: Asked) -> LeftProcessesOfJobs:
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


def rows() -> Sequence[Call]:
    """The row of the caller."""
    return [
        Call(
            "GET",
            "/3/me",
            tell_caller,
            "Tell who calls, and with which rights.",
            name="getCaller",
            gives=Caller,
            tag="access",
        )
    ]
