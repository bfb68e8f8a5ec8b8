"""Handlers of Ganeti's resources, by noun."""

import time
from collections.abc import Callable, Sequence
from typing import Final

import trio
from starlette.responses import RedirectResponse, Response

from common.errors import GantryError, NotFound, RemoteError
from common.ids import JobId
from common.jsontext import ascii_json
from common.objects.kinds import QueryKind, TagKind
from common.opcodes.tags import OpOsDiagnose
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import unstructure
from common.words.outcome import no_such_job
from daemons.rapid.calls import Asked
from daemons.rapid.ganeti.core import reads
from daemons.rapid.ganeti.core.reads import (
    FEATURES,
    Arguments,
    JobWait,
    ObjectCollection,
    as_links,
    as_objects,
    names_of,
    objects_of,
    only,
    query_of,
    reply_of,
    rule_of,
    wait_of,
    with_old_names,
)
from daemons.rapid.ganeti.core.writes import ROLE_WORDS, Asking, Write
from daemons.rapid.refusals import RequestRefused
from protocol.luxi.jobs import CancelJob, SubmitJob
from protocol.luxi.queries import (
    Query,
    QueryClusterInfo,
    QueryFields,
    QueryFilters,
    QueryInstances,
    QueryJobs,
    QueryNodes,
    QueryTags,
    Rows,
    WaitForJobChange,
)
from protocol.luxi.queue import DeleteFilter

# What a handler reads of a request, in the words of the core.


def arguments_of(asked: Asked) -> Arguments:
    return Arguments.of(asked.http.query_params.multi_items())


def name_of(asked: Asked) -> str:
    """The name or UUID in the path."""
    return str(asked.http.path_params["name"])


def job_id_of(asked: Asked) -> JobId:
    return JobId(int(asked.http.path_params["id"]))


def asking_of(asked: Asked) -> Asking:
    names = {name: str(value) for name, value in asked.http.path_params.items()}
    return Asking(names, arguments_of(asked), asked.body, time.time_ns())


def no_job(job_id: JobId) -> NotFound:
    return NotFound(no_such_job(job_id))


# The cluster: its facts, its tags and those of its objects, and what this interface can do.
#
# Source: rapi.md 6.1, 6.2, 6.10.


# of the protocol; the watcher takes another one for a dead daemon
VERSION: Final = 2


async def front(asked: Asked) -> object:
    """Nothing, as Ganeti has it; but a browser is led to the page."""
    if "text/html" in asked.http.headers.get("accept", ""):
        return RedirectResponse("/ui", 303)
    return None


async def nothing(asked: Asked) -> object:
    return None


async def version(asked: Asked) -> object:
    return VERSION


async def features(asked: Asked) -> object:
    return list(FEATURES)


async def facts(asked: Asked) -> object:
    return with_old_names(await asked.daemons.luxid(QueryClusterInfo()))


async def list_tags(kind: TagKind, asked: Asked) -> object:
    """Raises: RemoteError: there is no such object."""
    name = "" if kind is TagKind.CLUSTER else name_of(asked)
    return await asked.daemons.luxid(QueryTags(kind, name))


# Filter rules.
#
# Source: rapi.md 6.4; filters design, "REST API".


async def list_rules(asked: Asked) -> object:
    is_bulk = arguments_of(asked).flag("bulk")
    fields = reads.RULE if is_bulk else ("uuid",)
    rows = await asked.daemons.luxid(QueryFilters(None, fields))
    return as_objects(fields, rows) if is_bulk else as_links("filters", "uuid", rows)


async def read_rule(asked: Asked) -> object:
    """Raises: NotFound: there is none."""
    uuid = name_of(asked)
    rows = await asked.daemons.luxid(QueryFilters((uuid,), reads.RULE))
    return as_objects(reads.RULE, [only(rows, "filters", uuid)])[0]


async def add_rule(asked: Asked) -> object:
    """Set a new rule; returns its UUID."""
    return await asked.daemons.luxid(rule_of(None, asked.body))


async def replace_rule(asked: Asked) -> object:
    """Set the rule of this UUID, with a new watermark, whether there is one or not."""
    return await asked.daemons.luxid(rule_of(name_of(asked), asked.body))


async def delete_rule(asked: Asked) -> object:
    """Raises: RemoteError: there is none."""
    await asked.daemons.luxid(DeleteFilter(name_of(asked)))
    return None


# Replies with as many rows as there are jobs, or instances.
#
# Theory. Rows from luxid are JSON already: to look through them for values that are none takes longer than all the
# rest,
# 25 µs for a job. And a long list is written in a thread, so that other clients do not wait for it.


# number of rows up to which a reply is written at once
_FEW: Final = 500


async def list_reply(count: int, make: Callable[[], object]) -> Response:
    """The reply with what `make` returns, which must be of JSON-able values.

    Args: count: about so many rows.
    """

    def write() -> bytes:
        return ascii_json(make()) + b"\n"

    body = write() if count <= _FEW else await in_thread(write)
    return Response(body, media_type="application/json")


# Nodes, node groups, networks and instances: lists and single ones.
#
# Source: rapi.md 6.6 to 6.9.


async def list_objects(kind: ObjectCollection, asked: Asked) -> object:
    arguments = arguments_of(asked)
    rows = await asked.daemons.luxid(kind.listing(arguments))
    return await list_reply(len(rows), lambda: kind.list_of(arguments, rows))


async def read_object(kind: ObjectCollection, asked: Asked) -> object:
    """Raises: NotFound: there is none."""
    name = name_of(asked)
    return kind.item_of(name, await asked.daemons.luxid(kind.looking_up(name, arguments_of(asked))))


async def read_role(asked: Asked) -> object:
    """The role of a node in a word. Raises: NotFound: there is no such node."""
    name = name_of(asked)
    [letter] = only(await asked.daemons.luxid(QueryNodes((name,), ("role",))), "nodes", name)
    return ROLE_WORDS[str(letter)]


async def read_console(asked: Asked) -> object:
    """How to reach an instance's console.

    Raises: NotFound: there is no such instance. RequestRefused: it does not run.
    """
    name = name_of(asked)
    rows = await asked.daemons.luxid(QueryInstances((name,), ("console", "oper_state")))
    console, is_running = only(rows, "instances", name)
    if not is_running:
        raise RequestRefused(503, f"instance '{name}' is not running")
    return console


# Jobs: list, read, wait, cancel.
#
# Source: rapi.md 6.3.


# number of jobs asked for at once: some milliseconds' work
_AT_ONCE: Final = 200


async def list_jobs(asked: Asked) -> object:
    """The jobs that are not archived: links to them, or with `bulk` their fields."""
    rows = await asked.daemons.luxid(QueryJobs(None, ("id",)))
    if not arguments_of(asked).flag("bulk"):
        return await list_reply(len(rows), lambda: as_links("jobs", "id", rows))
    job_ids = [JobId(int(str(job_id))) for (job_id,) in rows]
    return Response(await _all_of(asked, job_ids), media_type="application/json")


async def read_job(asked: Asked) -> object:
    """A job, also an archived one. Raises: NotFound: there is none."""
    job_id = job_id_of(asked)
    rows = await asked.daemons.luxid(QueryJobs((job_id,), reads.JOB))
    [job] = as_objects(reads.JOB, rows)
    if job["status"] is None:
        raise no_job(job_id)
    return job


async def wait_for_job(asked: Asked) -> object:
    """The present state of a job, when it is another one than the client knows, or the time is over.

    Raises: InvalidRequest: the body is malformed. NotFound: there is no such job.
    """
    wait = wait_of(job_id_of(asked), asked.body)
    try:
        return reply_of(await asked.daemons.luxid(wait.call()))
    except RemoteError as error:
        if error.code != "not_found":
            raise
    return await _archived(asked, wait)


async def cancel_job(asked: Asked) -> object:
    """Whether the job is canceled, or will be, and a sentence about it."""
    done = await asked.daemons.luxid(CancelJob(job_id_of(asked)))
    return [done.is_done, done.message]


async def _all_of(asked: Asked, job_ids: Sequence[JobId]) -> bytes:
    """The fields of these jobs as JSON, asked for in parts, so that other clients are served in between."""
    parts: list[bytes] = []
    for start in range(0, len(job_ids), _AT_ONCE):
        rows = await _some_of(asked, tuple(job_ids[start : start + _AT_ONCE]))
        jobs = as_objects(reads.JOBS, rows)
        # a job without a status is gone since its id was listed
        if found := [job for job in jobs if job["status"] is not None]:
            parts.append(ascii_json(found)[1:-1])
    return b"[" + b",".join(parts) + b"]\n"


async def _some_of(asked: Asked, job_ids: tuple[JobId, ...]) -> Rows:
    """The rows of these jobs; a job whose file cannot be read is left out, as luxid leaves it out of lists."""
    try:
        return await asked.daemons.luxid(QueryJobs(job_ids, reads.JOBS))
    except RemoteError as error:
        if error.code != "unavailable":
            raise
    if len(job_ids) == 1:
        return ()
    middle = len(job_ids) // 2
    return (*await _some_of(asked, job_ids[:middle]), *await _some_of(asked, job_ids[middle:]))


async def _archived(asked: Asked, wait: JobWait) -> object:
    """The state of a job that luxid does not wait for."""
    [row] = await asked.daemons.luxid(QueryJobs((wait.job_id,), wait.archived_fields))
    reply = wait.reply_of_archived(row)
    if reply is None:
        raise no_job(wait.job_id)
    return reply


# Queries of all kinds of things, with any fields and a condition.
#
# Source: rapi.md 6.5.


async def query(what: QueryKind, asked: Asked) -> object:
    """The fields of all things, as the query string names them."""
    return await _answer(asked, query_of(what, arguments_of(asked), has_body=False))


async def query_some(what: QueryKind, asked: Asked) -> object:
    """The fields of the things for which the condition in the body is true."""
    return await _answer(asked, query_of(what, arguments_of(asked), asked.body, has_body=True))


async def list_fields(what: QueryKind, asked: Asked) -> object:
    return await asked.daemons.luxid(QueryFields(what, arguments_of(asked).words("fields")))


async def _answer(asked: Asked, query: Query) -> Response:
    found = await asked.daemons.luxid(query)
    return await list_reply(len(found.data), lambda: {"fields": unstructure(found.fields), "data": found.data})


# The operating systems that can be installed: found out by a job.
#
# Source: rapi.md 6.11.


_FINAL: Final = ("success", "error", "canceled")
# seconds of one wait, and for the message to luxid that nobody wants the list any more
_WAIT_S: Final = 60.0
_FAREWELL_S: Final = 5.0
_log: Final = get_log(__name__)


async def list_systems(asked: Asked) -> object:
    """The names, or with `bulk` all about each.

    Raises: RequestRefused: the job failed.
    Cancellation: the job is canceled, too.
    """
    is_bulk = arguments_of(asked).flag("bulk")
    fields = reads.OS if is_bulk else reads.OS_NAMES
    rows = await _result(asked, fields)
    return objects_of(fields, rows) if is_bulk else names_of(rows)


async def _result(asked: Asked, fields: Sequence[str]) -> list[list[object]]:
    op = {"OP_ID": OpOsDiagnose.OP_ID, "output_fields": list(fields), "names": []}
    job_id = await asked.daemons.luxid(SubmitJob((op,)))
    try:
        await _wait(asked, job_id)
    except trio.Cancelled:
        await _cancel(asked, job_id)
        raise
    [(status, results)] = await asked.daemons.luxid(QueryJobs((job_id,), ("status", "opresult")))
    result = results[0] if isinstance(results, list) and results else None
    if status != "success" or not isinstance(result, list):
        raise RequestRefused(
            502, f"job {job_id} is to find the operating systems, and ended as {status}: {result!r:.500}"
        )
    return result


async def _wait(asked: Asked, job_id: JobId) -> None:
    """Wait until the job has ended."""
    status, serial = None, 0
    while status not in _FINAL:
        change = await asked.daemons.luxid(WaitForJobChange(job_id, ("status",), [status], serial, _WAIT_S))
        status = change.values[0]
        serial = max([serial, *(entry.serial for entry in change.entries)])


async def _cancel(asked: Asked, job_id: JobId) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _FAREWELL_S):
        try:
            await asked.daemons.luxid(CancelJob(job_id))
        except GantryError as error:
            _log.warning("job.not_canceled", job=job_id, reason=error.message, effect="it runs to its end")


# Submit the job that a request means.
#
# Source: rapi.md 3.


async def submit(write: Write, asked: Asked) -> object:
    """The id of the job, as a number.

    Raises: InvalidRequest, OpcodeUnknown, Denied: as `Write.opcodes`.
    Durability: the job is durable.
    """
    return await asked.daemons.luxid(SubmitJob(tuple(write.opcodes(asking_of(asked)))))
