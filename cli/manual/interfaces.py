"""Reference of interfaces for programs: calls, metrics, ports."""

import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args, get_origin

import attrs

import protocol.keeperd
import protocol.luxi
import protocol.noded
import protocol.wconfd
from cli.choosing.lists import KINDS
from cli.job.list import OWN_FIELDS
from cli.manual.opcodes import type_words
from cli.manual.page import (
    Block,
    Code,
    Definition,
    Definitions,
    Literal,
    ManualPage,
    Paragraph,
    Section,
    capital,
    described,
    marked,
    paragraph,
    see_also,
    sentence,
)
from common.daemons import DAEMONS
from common.errors import NotFound
from common.reference import DaemonFacts, FieldFacts, MetricFacts, notes_of, summary_of
from common.settings import CLASSES
from common.settingsfile import SYSTEM_PATHS
from common.shapes import JsonObject, Lenient
from common.wire import structure
from protocol.face import requests_of
from protocol.luxi.history import EndedJob
from protocol.messages import AnyRequest, Request

# Reference of the HTTP interface, from its OpenAPI document.


_ABOUT_HTTP: Final = (
    "gantry-rapid(8) serves these calls on the port of `[rapid]` in gantry.toml(5), and on a Unix socket. "
    "`/3/openapi.json` is the whole description for programs, with all types; `/3/docs` shows it."
)
_REF: Final = "#/components/schemas/"


@attrs.frozen
class ApiContent(Lenient):
    schema: JsonObject = attrs.field(factory=dict)


@attrs.frozen
class ApiBody(Lenient):
    # media type -> what it is
    content: Mapping[str, ApiContent]


@attrs.frozen
class Response(Lenient):
    description: str
    content: Mapping[str, ApiContent] = attrs.field(factory=dict)


@attrs.frozen
class ApiParameter(Lenient):
    name: str
    schema: JsonObject
    description: str = ""
    required: bool = False


@attrs.frozen
class Operation(Lenient):
    summary: str
    # status -> reply
    responses: Mapping[str, Response]
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: tuple[ApiParameter, ...] = ()
    requestBody: ApiBody | None = None


@attrs.frozen
class ApiAbout(Lenient):
    description: str


@attrs.frozen
class ApiDocument(Lenient):
    """What is read of the document; the names are OpenAPI's."""

    info: ApiAbout
    # path -> verb -> call
    paths: Mapping[str, Mapping[str, Operation]]


def http_page(openapi: JsonObject) -> ManualPage:
    """Args: openapi: the document, OpenAPI 3.1."""
    document = structure(openapi, ApiDocument, "OpenAPI document")
    return ManualPage(
        "gantry-http",
        7,
        "calls of the HTTP interface",
        (
            Section("Description", (paragraph(_ABOUT_HTTP), *_paragraphs(document.info.description))),
            *(Section(tag.capitalize(), parts=tuple(calls)) for tag, calls in _by_tag(document).items()),
            see_also("gantry-rapid(8), gantry-errors(7), gantry-token(1)"),
        ),
    )


def _by_tag(document: ApiDocument) -> Mapping[str, list[Section]]:
    found: dict[str, list[Section]] = {}
    for path, verbs in document.paths.items():
        for verb, operation in verbs.items():
            tag = next(iter(operation.tags), "other")
            found.setdefault(tag, []).append(Section(f"{verb.upper()} {path}", tuple(_blocks_of_operation(operation))))
    return found


def _blocks_of_operation(operation: Operation) -> Iterator[Block]:
    yield paragraph(operation.summary)
    yield from _paragraphs(operation.description)
    if operation.parameters:
        yield Definitions(tuple(map(_parameter, operation.parameters)))
    if operation.requestBody is not None:
        kinds = operation.requestBody.content
        # it is the same in each media type
        schema = next(iter(kinds.values())).schema
        told = f", as {' or '.join(kinds)}" if len(kinds) > 1 else ""
        yield paragraph(f"Body: {schema_words(schema)}{told}.")
    yield paragraph(f"Replies: {'; '.join(_reply(status, each) for status, each in operation.responses.items())}.")


def _paragraphs(text: str) -> Sequence[Block]:
    return [paragraph(part) for part in text.split("\n\n") if part]


def _parameter(parameter: ApiParameter) -> Definition:
    needed = "; required" if parameter.required else ""
    words = f"{capital(schema_words(parameter.schema))}{needed}."
    return Definition((Literal(parameter.name),), (paragraph(f"{sentence(parameter.description)} {words}"),))


def _reply(status: str, reply: Response) -> str:
    words = [schema_words(each.schema) for each in reply.content.values() if each.schema]
    named = [each for each in words if each != "`Problem`"]
    return f"{status} {reply.description}" + (f" with {named[0]}" if named else "")


def schema_words(schema: object) -> str:
    """A type of the document in words."""
    match schema:
        case {"$ref": str(ref)}:
            return f"`{ref.removeprefix(_REF)}`"
        case {"anyOf": [*members]} | {"oneOf": [*members]}:
            return " or ".join(dict.fromkeys(map(schema_words, members)))
        case {"enum": [*values]}:
            return ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            return f"`{value}`"
        case {"items": Mapping() as items}:
            return f"list of {schema_words(items)}"
        case {"type": [*names]}:
            return " or ".join(map(str, names))
        case {"type": str(name)}:
            return name
        case _:
            return "any JSON"


# Reference of the metrics for Prometheus.


_ABOUT_METRICS: Final = (
    "gantry-rapid(8) serves these numbers under `/metrics`, in the text form of Prometheus; it asks the daemons at "
    "each request. gantry-mond(8) has a `/metrics` of its own with what a node measures of itself. "
    "`deploy/monitoring` has alerts and a dashboard."
)


def metrics_page(metrics: Sequence[MetricFacts]) -> ManualPage:
    return ManualPage(
        "gantry-metrics",
        7,
        "metrics for Prometheus",
        (
            Section("Description", (paragraph(_ABOUT_METRICS),)),
            Section("Metrics", (Definitions(tuple(map(_metric, metrics))),)),
            see_also("gantry-rapid(8), gantry-mond(8), gantry-status(1)"),
        ),
    )


def _metric(metric: MetricFacts) -> Definition:
    labels = f" Labels: {', '.join(f'`{label}`' for label in metric.labels)}." if metric.labels else ""
    return Definition((Literal(metric.name),), (paragraph(f"{metric.text} {metric.kind.capitalize()}.{labels}"),))


# Reference of the ports and sockets at which the daemons listen.
#
# The numbers are the defaults of the settings, the sockets those of the table of daemons. Who needs to reach a port is
# told by the table in deploy/systemd/PORTS.md. That is a file of the source tree, so this page is made there.


PORTS: Final = Path(__file__).parents[2] / "deploy" / "systemd" / "PORTS.md"
_KEY: Final = re.compile(r"`\[(?P<table>\w+)\] (?P<key>\w+)`")
_CELLS: Final = 5
_ABOUT_PORTS: Final = (
    "The daemons of one machine talk to each other and to the programs over Unix sockets. They listen at ports only "
    "for other machines, and for users of the web. Each port is a key of gantry.toml(5), the same on all nodes of a "
    "cluster."
)
_SOCKETS: Final = (
    "The kernel tells a daemon who connects, and the roles of `[access]` say what they may do: gantry.toml(5)."
)


def ports_page() -> ManualPage:
    rows, rest = _read()
    return ManualPage(
        "gantry-ports",
        7,
        "ports and sockets at which the daemons listen",
        (
            Section("Description", (paragraph(_ABOUT_PORTS),)),
            Section("Ports", (Definitions(tuple(map(_port, rows))), *rest)),
            Section("Sockets", (paragraph(_SOCKETS), Definitions(tuple(_sockets())))),
            see_also("gantry.toml(5), gantry-files(5), gantry(7)"),
        ),
    )


def _read() -> tuple[list[list[str]], tuple[Block, ...]]:
    """The rows of the table, and what stands behind it. Raises: NotFound: there is no source tree."""
    try:
        lines = PORTS.read_text().splitlines()
    except FileNotFoundError:
        raise NotFound(
            f"no file '{PORTS}'; this page is made in the source tree, and installed as a man page"
        ) from None
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    last = max(number for number, line in enumerate(lines) if line.startswith("| "))
    # the first row has the titles
    return [row for row in rows[1:] if len(row) == _CELLS], tuple(_blocks_of_text("\n".join(lines[last + 1 :])))


def _blocks_of_text(text: str) -> Iterator[Block]:
    for indented, group in _groups(text):
        yield Code(group) if indented else paragraph(group)


def _groups(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces between empty lines, and whether they stand by indentation."""
    for piece in text.strip("\n").split("\n\n"):
        lines = piece.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield True, "\n".join(line[4:] for line in lines)
        else:
            yield False, " ".join(lines)


def _port(row: list[str]) -> Definition:
    number, daemon, where, who, protected = row
    if found := _KEY.search(daemon):
        # the number is the one that the daemons use
        default = getattr(CLASSES[found["table"]](), found["key"])
        number = f"{default} {number.split()[-1]}"
    return Definition(
        (Literal(number),),
        (
            paragraph(f"{capital(daemon)}; on {where}."),
            paragraph(f"Needs to be reached by: {who}."),
            paragraph(f"Protected by: {protected}."),
        ),
    )


def _sockets() -> Iterator[Definition]:
    for daemon in DAEMONS:
        if daemon.socket is not None:
            yield Definition(
                (Literal(str(SYSTEM_PATHS.socket(daemon.name))),), (paragraph(f"`gantry-{daemon.name}`."),)
            )


# Reference of the daemons' calls over their sockets, from the classes of requests.


_ABOUT_REQUESTS: Final = (
    "Messages are JSON; each ends with the byte 3. A call is an object with `method` and `args`, a list in the "
    "order of the parameters; the reply has `success` and `result`. With `jsonrpc` in the call, the dialect is "
    "JSON-RPC 2.0, and parameters may be given by name. Parameters with a default may be left out from the end.",
    "An error is an object with a code: gantry-errors(7). The role is that of `[access]` in gantry.toml(5) which a "
    "caller needs at least; some calls need more for other users' jobs. The role `full` is for root and the "
    "daemons' user.",
)
# name of a page -> (package, name of the daemon, what it is, its socket)
_FACES: Final[Mapping[str, tuple[types.ModuleType, str, str]]] = {
    "gantry-luxi": (protocol.luxi, "luxid", "calls of luxid: the queue"),
    "gantry-wconfd-calls": (protocol.wconfd, "wconfd", "calls of wconfd: locks and configuration"),
    "gantry-keeperd-calls": (protocol.keeperd, "keeperd", "calls of keeperd: the mastership"),
}


def call_pages(facts: DaemonFacts) -> tuple[ManualPage, ...]:
    return tuple(_page(name, *face, facts.roles.get(face[1], {})) for name, face in _FACES.items())


def _page(name: str, face: types.ModuleType, daemon: str, about: str, roles: Mapping[str, str]) -> ManualPage:
    kinds = requests_of(face)
    shapes = {each.__name__: each for kind in kinds for each in _shapes(kind)}
    return ManualPage(
        name,
        7,
        about,
        (
            Section("Description", tuple(map(paragraph, _ABOUT_REQUESTS))),
            Section("Calls", parts=tuple(_call(kind, roles) for kind in kinds if kind.METHOD in roles)),
            Section("Objects", parts=tuple(_shape(shapes[each]) for each in sorted(shapes))),
            see_also(f"gantry-{daemon}(8), gantry-query(7), gantry-errors(7)"),
        ),
    )


def _call(kind: type[AnyRequest], roles: Mapping[str, str]) -> Section:
    about = inspect.cleandoc(vars(kind).get("__doc__") or "")
    blocks: list[Block] = [paragraph(part) for part in about.split("\n\n") if part]
    reply = marked(type_words(reply_of(kind)))
    blocks.append(Paragraph(("Role ", Literal(roles[kind.METHOD]), ". Reply: ", *reply, ".")))
    if rows := tuple(_request_fields(kind)):
        blocks.append(Definitions(rows))
    return Section(kind.METHOD, tuple(blocks))


def _shape(kind: type) -> Section:
    summary = summary_of(kind)
    return Section(
        kind.__name__, (*([paragraph(summary)] if summary else []), Definitions(tuple(_request_fields(kind))))
    )


def _request_fields(kind: type) -> Iterator[Definition]:
    notes = {name: note for base in reversed(kind.__mro__) for name, note in notes_of(base).items()}
    for field in attrs.fields(kind):
        told = capital(type_words(field.type)) + ("" if field.default is attrs.NOTHING else "; may be left out")
        yield Definition((Literal(field.name),), (paragraph(f"{sentence(notes.get(field.name, ''))} {told}."),))


def reply_of(kind: type[AnyRequest]) -> object:
    """The type of a reply."""
    for base in getattr(kind, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Request):
            return get_args(base)[0]
    return object


def _shapes(kind: type) -> Iterator[type]:
    """The classes of objects that stand in parameters and reply."""
    seen: dict[type, None] = {}
    for each in (reply_of(kind), *(field.type for field in attrs.fields(kind))):
        _gather(each, seen)
    yield from seen


def _gather(kind: object, seen: dict[type, None]) -> None:
    for part in get_args(kind):
        _gather(part, seen)
    if isinstance(kind, type) and attrs.has(kind) and kind not in seen and get_origin(kind) is None:
        seen[kind] = None
        for field in attrs.fields(kind):
            _gather(field.type, seen)


# The page of fields: what lists, filters and queries can have of each kind of things.


_TITLES: Final = {
    "job": "Fields of jobs",
    "lock": "Fields of locks",
    "filter": "Fields of filter rules",
    "node": "Fields of nodes",
    "group": "Fields of node groups",
    "network": "Fields of networks",
    "instance": "Fields of instances",
    "export": "Fields of exports",
}
# how many fields of instances are about one disk or network card each
_NUMBERED: Final = 3
_ABOUT_FIELDS: Final = (
    "A list takes the names of fields by `-o`: `-o id,status` are these columns, `-o +user` adds one to the usual "
    "ones. Filters and queries compare them: gantry-filters(7), gantry-query(7). 'gnt-job list-fields' tells the "
    "same of a running cluster; so do `gnt-node`, `gnt-group`, `gnt-network` and `gnt-filter`.",
    "`label.KEY` is the value of one label of a job.",
)


def fields_page(facts: DaemonFacts) -> ManualPage:
    return ManualPage(
        "gantry-fields",
        7,
        "fields of jobs, locks, rules, nodes and other things",
        (
            Section("Description", tuple(map(paragraph, _ABOUT_FIELDS))),
            *(Section(title, (_fields_of_kind(kind, facts.fields[kind]),)) for kind, title in _TITLES.items()),
            Section("Fields of the history", (paragraph(_HISTORY), Definitions(tuple(_past())))),
            see_also("gantry-filters(7), gantry-query(7), gnt-job-list(1)"),
        ),
    )


_HISTORY: Final = "Of jobs that have ended, as 'gnt-job history' shows them."


def _fields_of_kind(kind: str, fields: Sequence[FieldFacts]) -> Definitions:
    own = [FieldFacts(each.name, "", "other", each.doc) for each in OWN_FIELDS] if kind == "job" else []
    rows = sorted([*_without_numbers(fields), *own], key=lambda each: each.name)
    return Definitions(tuple(map(_row, rows)))


def _without_numbers(fields: Sequence[FieldFacts]) -> Iterator[FieldFacts]:
    """The fields; of those that exist for each disk and network card the first, with N for its number."""
    for field in fields:
        head, slash, number = field.name.partition("/")
        if number.isdigit() and slash:
            if number == "0":
                yield attrs.evolve(field, name=f"{head}/N")
        else:
            yield field


def _row(field: FieldFacts) -> Definition:
    kind = KINDS.get(field.kind, "")
    is_told = field.kind not in ("other", "text")
    return Definition((Literal(field.name),), (paragraph(sentence(field.text) + (f" {kind}." if is_told else "")),))


def _past() -> Iterator[Definition]:
    notes = notes_of(EndedJob)
    rows = {field.name: notes.get(field.name, "") for field in attrs.fields(EndedJob)}
    yield from described({name: capital(note) for name, note in rows.items()})
