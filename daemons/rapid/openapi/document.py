"""The OpenAPI 3.1 document of a table of calls, and the page that shows it to people.

Source: OpenAPI 3.1; RFC 9457.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any, Final

import orjson
from starlette.responses import Response

from common.system.inthread import in_thread
from daemons.rapid.calls import Asked, Call, CallParameter, Face
from daemons.rapid.openapi.schemas import Schema, Schemas, any_opcode
from daemons.rapid.transport.routing import body_types
from protocol.rapid.problems import CODES, MEDIA_TYPE, Problem

_JSON: Final = "application/json"
_VARIABLE: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_NUMBERS: Final = {"int": {"type": "integer", "minimum": 0}, "number": {"type": "string", "pattern": "^[0-9]{1,18}$"}}
_ABOUT: Final = """Jobs, locks, filter rules and the queue of a Gantry cluster.

Send a user and a password (Basic) or a token (Bearer). Over the Unix socket the kernel says who calls. Errors are
problem details (RFC 9457), whose `code` is for programs. The calls under /2 are Ganeti's, with its own forms.

A request may have an id of its client's in `X-Request-Id`: 1 to 128 letters, digits and `._~:/+=@-`. Each reply has
that id, or a new one, and rapid's log has it in each line about the request, as `request=`; of a request with a
`traceparent` (W3C Trace Context) also the id of the trace, as `trace=`. Over the network a reply of 4 KiB or more comes
compressed by gzip where `Accept-Encoding` allows it; streams and pages never do.

This document serves generators of clients: the names of the calls (`operationId`) stay as they are, and
`x-itemSchema` names the type of the events of a stream."""
# refusals of every call; 403 also where no right is needed, if another site made a browser send the request
_ALWAYS: Final = (400, 401, 403, 429, 500, 503)
_WITH_BODY: Final = (408, 413, 415)
# what Ganeti's resources have beside them, whatever they do
_GANETIS: Final = (404, 409, 502, 504)
_WITHOUT_CONTENT: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.SEE_OTHER, HTTPStatus.NOT_MODIFIED)


def openapi(table: Sequence[Call], version: str) -> Mapping[str, object]:
    """The document of all calls but pages.

    Raises: TypeError: it is not known how a value is written.
    Cost: about 50 ms.
    """
    schemas = Schemas(any_opcode)
    paths: dict[str, dict[str, object]] = {}
    shown = [call for call in table if call.name]
    for call in shown:
        path = _VARIABLE.sub(r"{\1}", call.path)
        paths.setdefault(path, {})[call.verb.lower()] = _operation(call, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gantry", "version": version, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(call.tag for call in shown if call.tag)],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(call: Call, schemas: Schemas) -> Mapping[str, object]:
    operation: dict[str, object] = {
        "operationId": call.name,
        "summary": call.summary,
        "responses": _responses(call, schemas),
    }
    if call.tag:
        operation["tags"] = [call.tag]
    if parameters := [*_variables(call.path), *map(_parameter, call.parameters)]:
        operation["parameters"] = parameters
    if call.takes is not None:
        operation["requestBody"] = _body(call, schemas)
    if description := _description(call):
        operation["description"] = description
    if not call.rights:
        # also without a name
        operation["security"] = [{}]
    if call.is_for_tokens:
        operation["security"] = [{"bearer": []}]
    return operation


def _description(call: Call) -> str:
    needed = " or ".join(f"`{right.value}`" for right in call.rights)
    return "\n\n".join(filter(None, (call.description, needed and f"Needs the right {needed}.")))


def _variables(path: str) -> Iterable[Schema]:
    for name, convertor in _VARIABLE.findall(path):
        schema = _NUMBERS.get(convertor, {"type": "string", "minLength": 1})
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: CallParameter) -> Schema:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
        "required": parameter.is_required,
        "schema": parameter.schema,
    }


def _body(call: Call, schemas: Schemas) -> Schema:
    content: dict[str, object] = {"schema": schemas.of_request(call.takes)}
    if call.examples:
        content["examples"] = {name: {"value": body} for name, body in call.examples.items()}
    return {"required": call.is_body_required, "content": dict.fromkeys(body_types(call), content)}


def _responses(call: Call, schemas: Schemas) -> Schema:
    contents: dict[int, dict[str, object]] = {}
    for status in (call.status, *call.also):
        contents[status] = {} if status in _WITHOUT_CONTENT else {call.media_type: _result(call, schemas)}
    is_ganetis = call.face is Face.GANETI
    media_type, schema = (_JSON, _ganeti_error(schemas)) if is_ganetis else (MEDIA_TYPE, schemas.of_open(Problem))
    for status in sorted(_refusals(call)):
        # a status may have a result and a refusal
        contents.setdefault(status, {})[media_type] = {"schema": schema}
    return {str(status): _response(status, content, _headers(call, status)) for status, content in contents.items()}


def _headers(call: Call, status: int) -> Schema:
    """The headers of a reply that its client needs for its next request."""
    if status == HTTPStatus.PRECONDITION_FAILED or (call.is_tagged and status in (call.status, *call.also)):
        return {"ETag": {"description": "its tag, for `If-Match`", "schema": {"type": "string"}}}
    if status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE and call.verb == "PATCH":
        return {"Accept-Patch": {"description": "media types that the body may have", "schema": {"type": "string"}}}
    return {}


def _refusals(call: Call) -> set[int]:
    statuses = {*_ALWAYS, *call.errors, *(_GANETIS if call.face is Face.GANETI else ())}
    if call.verb != "GET" or call.takes is not None:
        statuses.update(_WITH_BODY)
    return statuses


def _response(status: int, content: Schema, headers: Schema) -> Schema:
    response: dict[str, object] = {"description": HTTPStatus(status).phrase}
    if headers:
        response["headers"] = headers
    return {**response, "content": content} if content else response


def _result(call: Call, schemas: Schemas) -> Schema:
    if call.events is not None:
        # what reads a reply at once has a text, so its schema says nothing
        return {"schema": {}, EVENT_SCHEMA: schemas.of_events(call.events)}
    return {"schema": schemas.of(call.gives)}


class GanetiError:
    """An error under /2."""


def _ganeti_error(schemas: Schemas) -> Schema:
    kinds = {"code": {"type": "integer"}, "message": {"type": "string"}, "explain": {"type": "string"}}
    schema = {"type": "object", "description": "An error under /2.", "properties": kinds, "required": list(kinds)}
    return schemas.named(GanetiError, lambda: schema)


# The documentation as one HTML page, drawn from the document: no script, nothing from elsewhere.
#
# Source: DESIGN section 15.


# part of the document
Part = Mapping[str, Any]

POLICY: Final = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
# of a stream of events: OpenAPI 3.1 has no word for them; 3.2 calls it itemSchema
EVENT_SCHEMA: Final = "x-itemSchema"
_REF: Final = "#/components/schemas/"
CSS: Final = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.5rem; border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: 0.2rem 0; }
summary code { font-weight: bold; }
.verb { display: inline-block; min-width: 4rem; }
nav a { margin-right: 1rem; }
details > div { padding-left: 1rem; }
"""


def draw_docs(document: Part) -> str:
    """The page of all calls and types."""
    by_tag: dict[str, list[str]] = {}
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            tag = next(iter(operation.get("tags", ())), "other")
            by_tag.setdefault(tag, []).append(_operation_html(verb, path, operation))
    parts = [f"<h2 id='{escape(tag)}'>{escape(tag)}</h2>{''.join(drawn)}" for tag, drawn in by_tag.items()]
    types = "".join(_type(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    links = " ".join(f"<a href='#{escape(tag)}'>{escape(tag)}</a>" for tag in (*by_tag, "types"))
    about = _text(document["info"]["description"])
    more = "<p><a href='/3/openapi.json'>OpenAPI document</a> <a href='/3/problems'>Codes of problems</a></p>"
    body = f"{about}{more}<nav>{links}</nav>{''.join(parts)}<h2 id='types'>types</h2>{types}"
    return page(f"Gantry {document['info']['version']}: the HTTP interface", body)


def draw_problems() -> str:
    """The page to which the types of problems lead."""
    told = (
        f"<h2 id='{escape(code)}'><code>{escape(code)}</code>: {escape(title)}</h2><p>{escape(text)}</p>"
        for code, (title, text) in CODES.items()
    )
    return page("Problems", "".join(told))


def page(title: str, body: str) -> str:
    """A page with this body, which is HTML."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        "<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='/3/docs.css'></head>"
        f"<body><h1>{escape(title)}</h1>{body}</body></html>"
    )


def _operation_html(verb: str, path: str, operation: Part) -> str:
    head = f"<code><span class='verb'>{verb.upper()}</span>{escape(path)}</code> {escape(operation['summary'])}"
    parts = [
        _text(operation.get("description", "")),
        _parameters(operation.get("parameters", ())),
        _body_html(operation.get("requestBody")),
        _responses_html(operation["responses"]),
    ]
    return _folded(operation["operationId"], head, "".join(parts))


def _folded(name: str, head: str, body: str) -> str:
    """A part that opens by a click. Args: head, body: HTML."""
    return f"<details id='{escape(name)}'><summary>{head}</summary><div>{body}</div></details>"


def _text(text: str) -> str:
    return "".join(f"<p>{_marked(part)}</p>" for part in text.split("\n\n")) if text else ""


def _marked(text: str) -> str:
    """Words in back quotes as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _parameters(parameters: Sequence[Part]) -> str:
    rows = (
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{_schema(each['schema'])}</td><td>{_marked(each.get('description', ''))}</td></tr>"
        for each in parameters
    )
    return f"<table>{''.join(rows)}</table>" if parameters else ""


def _body_html(body: Part | None) -> str:
    if body is None:
        return ""
    kinds = body["content"]
    # a body is the same in each media type
    content = next(iter(kinds.values()))
    examples = (
        f"<p>{escape(name)}</p><pre>{escape(json.dumps(example['value'], indent=2))}</pre>"
        for name, example in content.get("examples", {}).items()
    )
    return f"<p>Body: {_schema(content['schema'])} <small>{escape(', '.join(kinds))}</small></p>{''.join(examples)}"


def _responses_html(responses: Part) -> str:
    rows = (
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(each['description'])}</td><td>{_content(each)}</td></tr>"
        for status, each in responses.items()
    )
    return f"<table>{''.join(rows)}</table>"


def _content(response: Part) -> str:
    return " ".join(
        f"{_schema(content.get(EVENT_SCHEMA, content['schema']))} <small>{escape(kind)}</small>"
        for kind, content in response.get("content", {}).items()
    )


def _type(name: str, schema: Part) -> str:
    rows = (
        f"<tr><td><code>{escape(field)}</code>{' *' if field in schema.get('required', ()) else ''}</td>"
        f"<td>{_schema(each)}</td><td>{_marked(each.get('description', ''))}</td></tr>"
        for field, each in schema.get("properties", {}).items()
    )
    shape = f"<table>{''.join(rows)}</table>" if "properties" in schema else _schema(schema)
    text = _text(schema.get("description", ""))
    return (
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary><div>{text}{shape}</div></details>"
    )


def _schema(schema: Part) -> str:
    return " ".join(_words(schema)) or "anything"


def _words(schema: Part) -> Iterator[str]:
    """A schema in short: its type and its bounds."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REF))
        yield f"<a href='#{name}'>{name}</a>"
        return
    for key in ("anyOf", "oneOf"):
        if key in schema:
            yield " or ".join(_schema(each) for each in schema[key])
    if "const" in schema:
        yield f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        yield ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    elif "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        yield escape(" or ".join(kinds))
    if isinstance(schema.get("items"), Mapping):
        yield f"of {_schema(schema['items'])}"
    if "prefixItems" in schema:
        yield f"[{', '.join(_schema(each) for each in schema['prefixItems'])}]"
    if schema.get("additionalProperties"):
        yield f"of {_schema(schema['additionalProperties'])}"
    if "minimum" in schema:
        yield f"≥ {schema['minimum']:g}"
    if "maximum" in schema:
        yield f"≤ {schema['maximum']:g}"
    if schema.get("default") not in (None, [], "", {}):
        yield f"(default <code>{escape(json.dumps(schema['default']))}</code>)"


# The rows that show the document: as JSON, and as a page for people.
#
# Source: DESIGN section 15.


_HTML: Final = "text/html; charset=utf-8"
_IF_NONE_MATCH: Final = CallParameter("If-None-Match", "the `ETag` of a reply that the client has", place="header")


class _CachedReply:
    """A reply that is made at the first request, in a thread, and then kept."""

    def __init__(self, make: Callable[[], str | bytes], media_type: str) -> None:
        self._make = make
        self._media_type = media_type
        self._body: bytes | None = None
        self._etag = ""

    async def reply(self, asked: Asked) -> Response:
        if self._body is None:
            body = await in_thread(self._make)
            self._body = body.encode() if isinstance(body, str) else body
            self._etag = f'"{hashlib.sha256(self._body).hexdigest()[:20]}"'
        headers = {
            "ETag": self._etag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
        }
        if _names(asked.http.headers.get("if-none-match", ""), self._etag):
            return Response(status_code=304, headers=headers)
        return Response(self._body, headers=headers, media_type=self._media_type)


def _names(header: str, etag: str) -> bool:
    """Whether a client has this: proxies that compress a reply make its tag weak, and caches send several."""
    tags = [each.strip().removeprefix("W/") for each in header.split(",")]
    return etag in tags or tags == ["*"]


def rows(table: Sequence[Call], version: str) -> Sequence[Call]:
    """The rows of the document of a table.

    Args: table: all other rows.
    """
    own: list[Call] = []

    def document() -> Mapping[str, object]:
        return openapi([*table, *own], version)

    as_json = _CachedReply(lambda: orjson.dumps(document()), "application/json")
    docs = _CachedReply(lambda: draw_docs(document()), _HTML)
    problems = _CachedReply(draw_problems, _HTML)
    css = _CachedReply(lambda: CSS, "text/css; charset=utf-8")
    own.append(
        Call(
            "GET",
            "/3/openapi.json",
            as_json.reply,
            "This document.",
            name="getDocument",
            gives=Mapping[str, object],
            also=(304,),
            parameters=(_IF_NONE_MATCH,),
            tag="documentation",
        )
    )
    pages = (
        ("/3/docs", docs, "This document as a page."),
        ("/3/problems", problems, "What the codes of problems mean."),
    )
    return [
        *own,
        *(Call("GET", path, kept.reply, summary, face=Face.PAGE, tag="documentation") for path, kept, summary in pages),
        Call("GET", "/3/docs.css", css.reply, "Their style.", face=Face.PAGE, tag="documentation"),
    ]
