"""The rows of rapid's table for Ganeti's resources.

Theory. The variables of a path are Ganeti's: a name has letters, digits, dots, lines and underscores. Errors get their
status here, since Ganeti's clients expect other ones than ours.

Source: rapi.md 2, 5.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from starlette.convertors import Convertor, register_url_convertor

from common.errors import GantryError
from common.objects.kinds import QueryKind
from common.webaccess.rights import Right
from daemons.rapid.calls import Asked, Call, CallParameter, Face, Handler
from daemons.rapid.ganeti import handlers
from daemons.rapid.ganeti.core import reads
from daemons.rapid.ganeti.core.reads import refusal_of
from daemons.rapid.ganeti.core.writes import TAGGED, WRITE, WRITES, Write

# The parameters of query strings in words, for the document.
#
# Source: rapi.md 3, 6, 7.


_FLAGS: Final = {
    "allocatable": "Whether the storage unit takes new volumes.",
    "auto-promote": "Whether other nodes may become master candidates.",
    "bulk": "Whether to tell all about each, not only names.",
    "dry-run": "Whether only to check.",
    "force": "Whether to do it in spite of warnings.",
    "ignore_secondaries": "Whether secondary nodes that are away do not matter.",
    "ignore_size": "Whether recorded sizes of disks do not matter.",
    "live": "Whether instances go on running, as old clients say it.",
    "lock": "Must be 0: queries take no locks.",
    "no_remember": "Whether the cluster forgets that the instance is to be so.",
    "nostartup": "Whether the instance is not started again, as old clients say it.",
    "static": "Whether to ask no node.",
}
_TEXTS: Final = {
    "disks": "Indices of disks, with commas between them.",
    "fields": "Names of fields, with commas between them.",
    "iallocator": "Name of the allocator.",
    "mode": "The way in which it is done.",
    "name": "Name of the storage unit.",
    "os": "Name of the operating system, as old clients say it.",
    "output_fields": "Names of fields, with commas between them.",
    "reason": "Why; it is put into the reason trail.",
    "remote_node": "Name of the new secondary node.",
    "storage_type": "Kind of storage.",
    "tag": "A tag; it may be given several times.",
    "type": "Kind of restart: soft, hard or full.",
}


def described(parameters: Mapping[str, bool] | Iterable[str]) -> tuple[CallParameter, ...]:
    """The parameters for the document. Args: parameters: names, or names with whether they must be given."""
    needed = parameters if isinstance(parameters, Mapping) else dict.fromkeys(parameters, False)
    return tuple(_described(name, is_required=is_required) for name, is_required in needed.items())


def _described(name: str, *, is_required: bool) -> CallParameter:
    if name in _FLAGS:
        return CallParameter(
            name, _FLAGS[name], {"type": "integer", "enum": [0, 1], "default": 0}, is_required=is_required
        )
    return CallParameter(name, _TEXTS[name], is_required=is_required)


_ROOTS: Final = {"/": "ganetiGetRoot", "/2": "ganetiGetRoot2"}
_ANYBODY: Final = ()
_READ: Final = ("read", "write")
_BULK: Final = ("bulk",)
_LOCK: Final = ("lock",)
_FIELDS: Final = ("fields",)
_RIGHT_TO_QUERY: Final = {
    QueryKind.JOB: Right.JOBS_READ,
    QueryKind.LOCK: Right.LOCKS_READ,
    QueryKind.FILTER: Right.FILTERS_READ,
}
_KINDS: Final = (reads.NODES, reads.GROUPS, reads.NETWORKS, reads.INSTANCES)


class _Name(Convertor[str]):
    regex = "[A-Za-z0-9_.-]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Number(Convertor[str]):
    # a longer one is no number of anything
    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("name", _Name())
register_url_convertor("number", _Number())


def rows() -> list[Call]:
    """Every resource of Ganeti's and every verb of it."""
    return [*_static(), *_cluster(), *_jobs(), *_filters(), *_queries(), *_objects(), *map(_write, WRITES)]


def _static() -> Iterator[Call]:
    yield _row("GET", "/", handlers.front, "Nothing; a browser is led to the web page.", also=(303,))
    yield _row("GET", "/2", handlers.nothing, "Nothing.")
    yield _row("GET", "/version", handlers.version, "The version of the protocol.")
    yield _row("GET", "/2/features", handlers.features, "What old servers cannot do.")


def _cluster() -> Iterator[Call]:
    yield _row("GET", "/2/info", handlers.facts, "Facts about the cluster.", Right.CLUSTER_READ)
    yield _row(
        "GET",
        "/2/os",
        handlers.list_systems,
        "The operating systems that can be installed, found by a job.",
        Right.CLUSTER_WRITE,
        only_waits=True,
        changes=True,
        parameters=_BULK,
    )
    for path, kind in TAGGED.items():
        yield _row(
            "GET", f"{path}/tags", partial(handlers.list_tags, kind), "The tags of an object.", Right.CLUSTER_READ
        )


def _jobs() -> Iterator[Call]:
    one = "/2/jobs/{id:number}"
    yield _row(
        "GET", "/2/jobs", handlers.list_jobs, "The jobs that are not archived.", Right.JOBS_READ, parameters=_BULK
    )
    yield _row("GET", one, handlers.read_job, "A job.", Right.JOBS_READ)
    yield _row(
        "DELETE",
        one,
        handlers.cancel_job,
        "Cancel a job.",
        # luxid refuses those who have only the second right the jobs of others
        Right.JOBS_CANCEL,
        Right.JOBS_SUBMIT,
        ganeti_rights=WRITE,
        changes=True,
    )
    yield _row(
        "GET",
        f"{one}/wait",
        handlers.wait_for_job,
        "Wait until a job is otherwise than the body says.",
        Right.JOBS_READ,
        ganeti_rights=WRITE,
        takes_body=True,
        only_waits=True,
    )


def _filters() -> Iterator[Call]:
    one = "/2/filters/{name:name}"
    may_read, may_write = Right.FILTERS_READ, Right.FILTERS_WRITE
    yield _row("GET", "/2/filters", handlers.list_rules, "The filter rules.", may_read, parameters=_BULK)
    yield _row("GET", one, handlers.read_rule, "A filter rule.", may_read)
    yield _changing("POST", "/2/filters", handlers.add_rule, "Set a new filter rule.", may_write)
    yield _changing("PUT", one, handlers.replace_rule, "Set or replace a filter rule.", may_write)
    yield _changing("DELETE", one, handlers.delete_rule, "Delete a filter rule.", may_write)


def _queries() -> Iterator[Call]:
    for what in QueryKind:
        path = f"/2/query/{what.value}"
        right = _RIGHT_TO_QUERY.get(what, Right.CLUSTER_READ)
        yield _row(
            "GET",
            path,
            partial(handlers.query, what),
            "Fields of all things of a kind.",
            right,
            ganeti_rights=_READ,
            parameters={"fields": True},
        )
        yield _row(
            "PUT",
            path,
            partial(handlers.query_some, what),
            "Fields of the things for which a condition holds.",
            right,
            ganeti_rights=_READ,
            takes_body=True,
            parameters=_FIELDS,
        )
        words = "The fields of a kind of things."
        yield _row("GET", f"{path}/fields", partial(handlers.list_fields, what), words, right, parameters=_FIELDS)


def _objects() -> Iterator[Call]:
    right = Right.CLUSTER_READ
    for kind in _KINDS:
        path, words = f"/2/{kind.collection}", f"One of the {kind.collection}."
        list_objects, read_object = partial(handlers.list_objects, kind), partial(handlers.read_object, kind)
        yield _row("GET", path, list_objects, f"The {kind.collection}.", right, parameters=(*_BULK, *_LOCK))
        yield _row("GET", f"{path}/{{name:name}}", read_object, words, right, parameters=_LOCK)
    yield _row("GET", "/2/nodes/{name:name}/role", handlers.read_role, "The role of a node.", right)
    yield _row(
        "GET",
        "/2/instances/{name:name}/console",
        handlers.read_console,
        "How to reach an instance's console.",
        right,
        ganeti_rights=_READ,
    )


def _write(write: Write) -> Call:
    summary = (write.opcode.__doc__ or "").splitlines()[0].removesuffix(".") + ", by a job."
    return _row(
        write.verb,
        write.path,
        partial(handlers.submit, write),
        summary,
        Right.CLUSTER_WRITE,
        ganeti_rights=write.ganeti_rights,
        takes_body=write.verb != "GET",
        changes=True,
        parameters=write.parameters,
    )


def _changing(verb: str, path: str, handler: Handler, summary: str, right: Right) -> Call:
    return _row(verb, path, handler, summary, right, ganeti_rights=WRITE, takes_body=True, changes=True)


def _row(
    verb: str,
    path: str,
    handler: Handler,
    summary: str,
    *rights: Right,
    ganeti_rights: tuple[str, ...] = _ANYBODY,
    takes_body: bool = False,
    only_waits: bool = False,
    changes: bool = False,
    parameters: Mapping[str, bool] | Iterable[str] = (),
    also: tuple[int, ...] = (),
) -> Call:
    return Call(
        verb,
        path,
        _with_ganetis_status(handler),
        summary,
        name=_name_of(verb, path),
        face=Face.GANETI,
        rights=rights,
        ganeti_rights=ganeti_rights,
        # any verb may have a body, and the resource says what it takes from it
        takes=object if takes_body else None,
        is_body_required=False,
        gives=object,
        also=also,
        tag="Ganeti",
        only_waits=only_waits,
        changes=changes,
        parameters=described(parameters),
    )


def _name_of(verb: str, path: str) -> str:
    """The verb and the words of the path, as in `ganetiPutNodeRole`; of what a variable names, the singular."""
    if path in _ROOTS:
        return _ROOTS[path]
    words: list[str] = []
    for part in path.removeprefix("/2").strip("/").split("/"):
        if part.startswith("{"):
            words[-1] = words[-1].removesuffix("s")
        else:
            words += [word.capitalize() for word in part.split("-")]
    return "".join(("ganeti", verb.capitalize(), *words))


def _with_ganetis_status(handler: Handler) -> Handler:
    async def answer(asked: Asked) -> object:
        try:
            return await handler(asked)
        except GantryError as error:
            raise refusal_of(error) from error

    return answer
