"""The calls of /3 that the clients make, as values."""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import attrs

from common.wire import unstructure
from protocol.luxi.jobs import JobOutput, NewJob, OpInput, OutputStream, Submission, SubmitJob, SubmitManyJobs
from protocol.messages import AnyRequest, positional
from protocol.rapid.cluster import (
    Caller,
    Filter,
    FilterList,
    FilterTrial,
    FilterWish,
    LockList,
    Queue,
)
from protocol.rapid.events import FollowWish, Topic
from protocol.rapid.explanations import (
    Explanation,
)
from protocol.rapid.jobactions import (
    ArchiveMany,
    CancelMany,
    CancelWish,
    Done,
    ManyChanged,
    PrioritizeMany,
    PriorityWish,
)
from protocol.rapid.jobs import (
    LIST_FIELDS,
    Job,
    JobChange,
    JobPage,
    JobQuery,
    Submitted,
)
from protocol.rapid.luxi import PASSED, path_of

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
    # whether a key makes it repeatable: then it matters whether it was carried out
    has_key: bool = False
    # seconds that the server may take for waiting, beside its usual time
    waits_s: float = 0.0

    @property
    def is_harmless(self) -> bool:
        """Whether it does not matter if it was carried out: it reads, or sets what it would set again."""
        return self.is_repeatable and not self.has_key


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


def new_key() -> str:
    """A key for a submission: no other has it."""
    return os.urandom(16).hex()


def submit_jobs(jobs: Sequence[Sequence[OpInput]], key: str) -> HttpCall[Submitted]:
    """Args: key: sent again with it, the same submission gets the same ids."""
    body = Submission(tuple(NewJob(tuple(ops)) for ops in jobs))
    call = post("/3/jobs", Submitted, body, is_repeatable=True)
    return attrs.evolve(call, headers={KEY_HEADER: key}, has_key=True)


def query_jobs(query: JobQuery) -> HttpCall[JobPage]:
    return post("/3/jobs/query", JobPage, query, is_repeatable=True)


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


def cancel_job(job_id: int, *, kill: bool) -> HttpCall[Done]:
    return post(_of(job_id, "cancel"), Done, CancelWish(kill))


def change_priority(job_id: int, priority: int) -> HttpCall[Done]:
    return post(_of(job_id, "priority"), Done, PriorityWish(priority))


def archive_job(job_id: int) -> HttpCall[Done]:
    return post(_of(job_id, "archive"), Done)


def cancel_many(wish: CancelMany) -> HttpCall[ManyChanged]:
    return _many("/3/jobs/cancel", wish)


def follow_jobs(wish: FollowWish) -> HttpCall[None]:
    """The stream of the events of some jobs; it is read by `stream` of a client."""
    return post("/3/jobs/follow", type(None), wish, is_repeatable=True)


def _many(path: str, wish: CancelMany | PrioritizeMany | ArchiveMany) -> HttpCall[ManyChanged]:
    return post(path, ManyChanged, wish, is_repeatable=wish.dry_run)


def _of(job_id: int, part: str = "") -> str:
    return f"/3/jobs/{int(job_id)}/{part}" if part else f"/3/jobs/{int(job_id)}"


# The calls about filter rules, the queue, locks, and what the cluster has.
#
# Source: DESIGN section 15.


def list_filters() -> HttpCall[FilterList]:
    return get("/3/filters", FilterList)


def add_filter(wish: FilterWish) -> HttpCall[Filter]:
    return post("/3/filters", Filter, wish)


def replace_filter(uuid: str, wish: FilterWish, tag: str | None = None) -> HttpCall[Filter]:
    """Args: tag: that the rule must still have; None: whichever it has."""
    call = HttpCall("PUT", f"/3/filters/{segment(uuid)}", Filter, body=unstructure(wish))
    # a second delivery would find the tag of the first
    return attrs.evolve(call, headers=_if_match(tag), is_repeatable=tag is None)


def delete_filter(uuid: str, tag: str | None = None) -> HttpCall[None]:
    """Args: tag: as of `replace_filter`."""
    path = f"/3/filters/{segment(uuid)}"
    return HttpCall("DELETE", path, type(None), headers=_if_match(tag), is_repeatable=False)


def _if_match(tag: str | None) -> Mapping[str, str]:
    return {} if tag is None else {"If-Match": f'"{tag}"'}


def try_filter(wish: FilterWish) -> HttpCall[FilterTrial]:
    return post("/3/filters/try", FilterTrial, wish, is_repeatable=True)


def get_queue() -> HttpCall[Queue]:
    return get("/3/queue", Queue)


def list_locks(names: Sequence[str] = ()) -> HttpCall[LockList]:
    return get("/3/locks", LockList, names=tuple(names))


def get_caller() -> HttpCall[Caller]:
    return get("/3/me", Caller)


def stream_events(topics: Sequence[Topic] = (), ids: Sequence[int] = ()) -> HttpCall[None]:
    """The stream of events; it has no end, and is read by `stream` of a client."""
    return get("/3/events", type(None), topics=tuple(topic.value for topic in topics), ids=tuple(ids))


# Messages of LUXI.
#
# Source: `protocol.rapid.luxi`.


def pass_luxi(request: AnyRequest, waits_s: float = 0.0) -> HttpCall[object]:
    """The value is luxid's reply, for `protocol.envelope.result_of`.

    A method that changes something is sent again only with a key: else its caller decides, as on the Unix socket.
    """
    passed = PASSED.get(type(request))
    has_key = isinstance(request, SubmitJob | SubmitManyJobs) and request.key is not None
    return HttpCall(
        "POST",
        path_of(type(request)),
        object,
        body=positional(request),
        is_repeatable=has_key or (passed is not None and not passed.changes),
        has_key=has_key,
        waits_s=waits_s,
    )
