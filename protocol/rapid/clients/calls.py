"""The calls of /3 that the clients make, as values."""

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, TypeVar
from urllib.parse import quote

import attrs
import orjson

from common.ids import JobId
from common.objects.kinds import QueryKind
from common.resources import Resource
from common.shapes import AS_IT_COMES
from common.wire import unstructure
from protocol.luxi.history import Past, ReadHistory, SummarizeHistory
from protocol.luxi.jobs import JobOutput, OutputStream
from protocol.luxi.queries import FieldDefinitions
from protocol.luxi.queue import ResourceUse, ScheduleView, ScheduleWish
from protocol.rapid.cluster import (
    Caller,
    Filter,
    FilterList,
    FilterTrial,
    FilterWish,
    LimitsWish,
    LockList,
    ObjectList,
    ObjectQuery,
    ObjectRows,
    Queue,
    ResourceList,
    ScheduleForm,
    ScheduleList,
    StartedRun,
    TotalWish,
)
from protocol.rapid.events import FollowWish, Topic
from protocol.rapid.explanations import (
    Explanation,
    Explanations,
    History,
    HistorySummary,
    JobIds,
    LeftProcessesOfJobs,
    WaitsOfJobs,
)
from protocol.rapid.jobactions import (
    ArchiveMany,
    AutoArchived,
    AutoArchiveWish,
    CancelMany,
    CancelWish,
    Done,
    HoldMany,
    ManyChanged,
    ManyRerun,
    ModifyMany,
    PrioritizeMany,
    PriorityWish,
    ReleaseMany,
    Rerun,
    RerunMany,
)
from protocol.rapid.jobs import (
    LIST_FIELDS,
    Job,
    JobChange,
    JobPage,
    JobQuery,
    LogLine,
    NewJob,
    OpInput,
    Submission,
    Submitted,
)

# A call of /3 as a value: what is sent, what comes back, and whether it may be sent twice.
#
# Source: DESIGN section 15.


T = TypeVar("T")


@attrs.frozen
class HttpCall(Generic[T]):
    verb: str
    # path with quoted names: "/3/jobs/14"
    path: str
    # class of the value that comes back; None: there is none
    gives: type[T]
    params: Mapping[str, str] = attrs.field(factory=dict)
    # body as JSON value; None: there is none
    body: object = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    # whether a second delivery does no harm and gets the same reply
    is_repeatable: bool = True
    # seconds that the server may take for waiting, beside its usual time
    waits_s: float = 0.0

    @property
    def is_harmless(self) -> bool:
        """Whether it does not matter if it was carried out: it reads, or sets what it would set again."""
        return self.is_repeatable and not self.headers


def get(path: str, gives: type[T], *, waits_s: float = 0.0, **params: object) -> HttpCall[T]:
    """A call that reads; parameters that are None or empty are left out."""
    return HttpCall("GET", path, gives, _params(params), waits_s=waits_s)


def post(path: str, gives: type[T], body: object = None, *, is_repeatable: bool = False) -> HttpCall[T]:
    """A call with a typed body. Args: is_repeatable: it only reads, or has a key."""
    return HttpCall("POST", path, gives, body=None if body is None else unstructure(body), is_repeatable=is_repeatable)


def segment(name: object) -> str:
    """A name as a part of a path."""
    return quote(str(name), safe="")


def _params(params: Mapping[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in params.items() if value not in (None, "", (), False)}


def _text(value: object) -> str:
    if value is True:
        return "true"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


# The calls about jobs.
#
# Source: DESIGN section 15.


KEY_HEADER: Final = "Idempotency-Key"


@attrs.frozen
class BareJobs:
    """A page of jobs as JSON objects, for programs that convert them."""

    jobs: Annotated[list[Mapping[str, object]], AS_IT_COMES]
    next: str | None = None
    notes: tuple[str, ...] = ()


@attrs.frozen
class BareChange:
    """A job after a wait, as a JSON object."""

    job: Mapping[str, object]
    log: tuple[LogLine, ...]


def new_key() -> str:
    """A key for a submission: no other has it."""
    return os.urandom(16).hex()


def submit_jobs(jobs: Sequence[Sequence[OpInput]], key: str) -> HttpCall[Submitted]:
    """Args: key: sent again with it, the same submission gets the same ids."""
    body = Submission(tuple(NewJob(tuple(ops)) for ops in jobs))
    return attrs.evolve(post("/3/jobs", Submitted, body, is_repeatable=True), headers={KEY_HEADER: key})


def query_jobs(query: JobQuery) -> HttpCall[JobPage]:
    return post("/3/jobs/query", JobPage, query, is_repeatable=True)


def query_bare_jobs(query: JobQuery) -> HttpCall[BareJobs]:
    return post("/3/jobs/query", BareJobs, query, is_repeatable=True)


def get_job(job_id: int, fields: Sequence[str] = ()) -> HttpCall[Job]:
    return get(_of(job_id), Job, fields=tuple(fields))


def wait_until(
    job_id: int, states: Sequence[str], timeout_s: float, fields: Sequence[str] = LIST_FIELDS
) -> HttpCall[JobChange]:
    """Wait until the job is in one of these states, or the time is over. Args: states: may have "final"."""
    return get(
        _of(job_id, "wait"),
        JobChange,
        waits_s=timeout_s,
        until=tuple(states),
        timeout=f"{timeout_s:g}",
        fields=tuple(fields),
    )


def wait_for_change(
    job_id: int, fields: Sequence[str], known: Mapping[str, object] | None, serial: int, timeout_s: float
) -> HttpCall[BareChange]:
    """Wait until the job differs from what is known of it, or has later log lines; without `known` returns at once."""
    previous = None if known is None else orjson.dumps(known).decode()
    return get(
        _of(job_id, "wait"),
        BareChange,
        waits_s=timeout_s,
        fields=tuple(fields),
        previous=previous,
        serial=serial or None,
        timeout=f"{timeout_s:g}",
    )


def read_output(
    job_id: int, offset: int, timeout_s: float, stream: OutputStream, of_try: int | None = None
) -> HttpCall[JobOutput]:
    """A piece of output from an offset on; waits for one if there is none.

    Args: of_try: number of the only try of which it is wanted; None: all.
    """
    return get(
        _of(job_id, "output/piece"),
        JobOutput,
        waits_s=timeout_s,
        offset=offset or None,
        timeout=f"{timeout_s:g}",
        stream=stream.value,
        **{"try": of_try},
    )


def explain_job(job_id: int) -> HttpCall[Explanation]:
    return get(_of(job_id, "why"), Explanation)


def explain_jobs(job_ids: Sequence[int]) -> HttpCall[Explanations]:
    return post("/3/jobs/why", Explanations, _ids(job_ids), is_repeatable=True)


def read_waits(job_ids: Sequence[int]) -> HttpCall[WaitsOfJobs]:
    return post("/3/jobs/waits", WaitsOfJobs, _ids(job_ids), is_repeatable=True)


def read_left_processes(job_ids: Sequence[int]) -> HttpCall[LeftProcessesOfJobs]:
    return post("/3/jobs/processes", LeftProcessesOfJobs, _ids(job_ids), is_repeatable=True)


def cancel_job(job_id: int, *, kill: bool) -> HttpCall[Done]:
    return post(_of(job_id, "cancel"), Done, CancelWish(kill))


def change_priority(job_id: int, priority: int) -> HttpCall[Done]:
    return post(_of(job_id, "priority"), Done, PriorityWish(priority))


def archive_job(job_id: int) -> HttpCall[Done]:
    return post(_of(job_id, "archive"), Done)


def archive_old(age_s: int, timeout_s: int) -> HttpCall[AutoArchived]:
    call = post("/3/jobs/autoarchive", AutoArchived, AutoArchiveWish(age_s, timeout_s))
    return attrs.evolve(call, waits_s=float(timeout_s))


def cancel_many(wish: CancelMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/cancel", wish)


def prioritize_many(wish: PrioritizeMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/priority", wish)


def archive_many(wish: ArchiveMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/archive", wish)


def follow_jobs(wish: FollowWish) -> HttpCall[None]:
    """The stream of the events of some jobs; it is read by `stream` of a client."""
    return post("/3/jobs/follow", type(None), wish, is_repeatable=True)


def _many(path: str, wish: CancelMany | PrioritizeMany | ArchiveMany) -> HttpCall[ManyChanged]:
    return post(path, ManyChanged, wish, is_repeatable=wish.dry_run)


def _of(job_id: int, part: str = "") -> str:
    return f"/3/jobs/{int(job_id)}/{part}" if part else f"/3/jobs/{int(job_id)}"


def _ids(job_ids: Sequence[int]) -> JobIds:
    return JobIds(tuple(map(JobId, job_ids)))


# The calls of every day: change waiting jobs, run ended ones again, look back.
#
# Source: DESIGN sections 15 and 16.


def hold_many(wish: HoldMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/hold", ManyChanged, wish, is_repeatable=wish.dry_run)


def release_many(wish: ReleaseMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/release", ManyChanged, wish, is_repeatable=wish.dry_run)


def modify_many(wish: ModifyMany) -> HttpCall[ManyChanged]:
    return post("/3/jobs/modify", ManyChanged, wish, is_repeatable=wish.dry_run)


def rerun_job(job_id: JobId) -> HttpCall[Rerun]:
    return post(f"/3/jobs/{int(job_id)}/rerun", Rerun)


def rerun_many(wish: RerunMany) -> HttpCall[ManyRerun]:
    return post("/3/jobs/rerun", ManyRerun, wish, is_repeatable=wish.dry_run)


def read_history(wish: ReadHistory) -> HttpCall[History]:
    own = {"sort": wish.sort.value, "ascending": "true" if wish.is_ascending else "false"}
    part = {"limit": str(wish.limit), "offset": str(wish.offset)}
    return HttpCall("GET", "/3/history", History, {**_choice(wish.choice), **own, **part})


def summarize_history(wish: SummarizeHistory) -> HttpCall[HistorySummary]:
    label = {"label": wish.label} if wish.label else {}
    params = {**_choice(wish.choice), "by": wish.by.value, "zone": wish.zone, **label}
    return HttpCall("GET", "/3/history/summary", HistorySummary, params)


def _choice(choice: Past) -> dict[str, str]:
    given = {
        "since": None if choice.since is None else repr(choice.since),
        "until": None if choice.until is None else repr(choice.until),
        "status": ",".join(state.value for state in choice.states),
        "filter": None if choice.filter is None else orjson.dumps(choice.filter).decode(),
    }
    return {name: value for name, value in given.items() if value}


# The calls about what stands in a cluster for long: schedules and counted resources.
#
# Source: DESIGN sections 15 and 16.


_ADDED: Final = {"If-None-Match": "*"}
_CHANGED: Final = {"If-Match": "*"}


def list_schedules(next_count: int) -> HttpCall[ScheduleList]:
    return HttpCall("GET", "/3/schedules", ScheduleList, {"next": str(next_count)})


def get_schedule(name: str, next_count: int) -> HttpCall[ScheduleView]:
    return HttpCall("GET", _schedule(name), ScheduleView, {"next": str(next_count)})


def add_schedule(wish: ScheduleWish) -> HttpCall[ScheduleView]:
    """Refused if there is one of this name."""
    return _put_schedule(wish, _ADDED)


def change_schedule(wish: ScheduleWish) -> HttpCall[ScheduleView]:
    """Refused if there is none of this name."""
    return _put_schedule(wish, _CHANGED)


def _put_schedule(wish: ScheduleWish, headers: dict[str, str]) -> HttpCall[ScheduleView]:
    form = ScheduleForm(**{field.name: getattr(wish, field.name) for field in attrs.fields(ScheduleForm)})
    path, body = _schedule(wish.name), unstructure(form)
    return HttpCall("PUT", path, ScheduleView, body=body, headers=headers, is_repeatable=False)


def pause_schedule(name: str, *, is_paused: bool) -> HttpCall[ScheduleView]:
    return post(f"{_schedule(name)}/{'pause' if is_paused else 'resume'}", ScheduleView, is_repeatable=True)


def run_schedule(name: str) -> HttpCall[StartedRun]:
    return post(f"{_schedule(name)}/run", StartedRun)


def remove_schedule(name: str) -> HttpCall[None]:
    return HttpCall("DELETE", _schedule(name), type(None), is_repeatable=False)


def _schedule(name: str) -> str:
    return f"/3/schedules/{segment(name)}"


def list_resources() -> HttpCall[ResourceList]:
    return HttpCall("GET", "/3/resources", ResourceList)


def set_resource(resource: Resource) -> HttpCall[ResourceUse]:
    wish = unstructure(TotalWish(resource.total, resource.unit))
    return HttpCall("PUT", _resource(resource.key), ResourceUse, body=wish)


def remove_resource(key: str) -> HttpCall[None]:
    return HttpCall("DELETE", _resource(key), type(None), is_repeatable=False)


def _resource(key: str) -> str:
    return f"/3/resources/{segment(key)}"


# The calls about filter rules, the queue, locks, and what the cluster has.
#
# Source: DESIGN section 15.


def list_filters() -> HttpCall[FilterList]:
    return get("/3/filters", FilterList)


def get_filter(uuid: str) -> HttpCall[Filter]:
    return get(f"/3/filters/{segment(uuid)}", Filter)


def add_filter(wish: FilterWish) -> HttpCall[Filter]:
    return post("/3/filters", Filter, wish)


def replace_filter(uuid: str, wish: FilterWish) -> HttpCall[Filter]:
    return HttpCall("PUT", f"/3/filters/{segment(uuid)}", Filter, body=unstructure(wish))


def delete_filter(uuid: str) -> HttpCall[None]:
    return HttpCall("DELETE", f"/3/filters/{segment(uuid)}", type(None), is_repeatable=False)


def try_filter(wish: FilterWish) -> HttpCall[FilterTrial]:
    return post("/3/filters/try", FilterTrial, wish, is_repeatable=True)


def get_queue() -> HttpCall[Queue]:
    return get("/3/queue", Queue)


def drain_queue() -> HttpCall[Queue]:
    return post("/3/queue/drain", Queue, is_repeatable=True)


def undrain_queue() -> HttpCall[Queue]:
    return post("/3/queue/undrain", Queue, is_repeatable=True)


def set_limits(wish: LimitsWish) -> HttpCall[Queue]:
    return HttpCall("PUT", "/3/queue/limits", Queue, body=unstructure(wish))


def list_locks(names: Sequence[str] = ()) -> HttpCall[LockList]:
    return get("/3/locks", LockList, names=tuple(names))


def list_objects(kind: QueryKind, fields: Sequence[str] = (), filter: str = "") -> HttpCall[ObjectList]:
    """Nodes, groups, networks or instances."""
    return get(f"/3/{kind.value}s", ObjectList, fields=tuple(fields), filter=filter)


def query_objects(kind: QueryKind, query: ObjectQuery) -> HttpCall[ObjectRows]:
    """LUXI's query of anything but jobs."""
    return post(f"/3/query/{kind.value}", ObjectRows, query, is_repeatable=True)


def list_fields(kind: QueryKind, names: Sequence[str] = ()) -> HttpCall[FieldDefinitions]:
    return get("/3/fields", FieldDefinitions, what=kind.value, fields=tuple(names))


def get_caller() -> HttpCall[Caller]:
    return get("/3/me", Caller)


def stream_events(topics: Sequence[Topic] = (), ids: Sequence[int] = ()) -> HttpCall[None]:
    """The stream of events; it has no end, and is read by `stream` of a client."""
    return get("/3/events", type(None), topics=tuple(topic.value for topic in topics), ids=tuple(ids))
