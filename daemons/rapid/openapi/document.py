"""The OpenAPI 3.1 document of a table of calls.

Source: OpenAPI 3.1; RFC 9457.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

import orjson
from starlette.responses import Response

from common.system.inthread import in_thread
from daemons.rapid.calls import Asked, Call, CallParameter, Face
from daemons.rapid.openapi.docpage import CSS, POLICY, draw_docs, draw_problems
from daemons.rapid.openapi.schemas import Schema, Schemas, any_opcode
from protocol.rapid.problems import MEDIA_TYPE, Problem

_JSON: Final = "application/json"
_VARIABLE: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_EVENTS: Final = "text/event-stream"
_NUMBERS: Final = {"int": {"type": "integer", "minimum": 0}, "number": {"type": "string", "pattern": "^[0-9]{1,18}$"}}
_ABOUT: Final = """Jobs, locks, filter rules and the queue of a Gantry cluster.

Send a user and a password (Basic) or a token (Bearer). Over the Unix socket the kernel says who calls. Errors are
problem details (RFC 9457), whose `code` is for programs. The calls under /2 are Ganeti's, with its own forms."""
# every call may end so
_ALWAYS: Final = (400, 401, 429, 500, 503)
_WITH_RIGHTS: Final = (403,)
_WITH_BODY: Final = (408, 413, 415)


def openapi(table: Sequence[Call], version: str) -> Mapping[str, object]:
    """The document of all calls but pages.

    Raises: TypeError: it is not known how a value is written.
    Cost: about 50 ms.
    """
    schemas = Schemas(any_opcode)
    paths: dict[str, dict[str, object]] = {}
    shown = [call for call in table if call.face is not Face.PAGE and call.is_in_document]
    for call in shown:
        path = _VARIABLE.sub(r"{\1}", call.path)
        paths.setdefault(path, {})[call.verb.lower()] = _operation(call, path, schemas)
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


def _operation(call: Call, path: str, schemas: Schemas) -> Mapping[str, object]:
    operation: dict[str, object] = {
        "operationId": _operation_id(call.verb, path),
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
    for kind in call.mentions:
        schemas.of(kind)
    return operation


def _description(call: Call) -> str:
    needed = " or ".join(f"`{right.value}`" for right in call.rights)
    return "\n\n".join(filter(None, (call.description, needed and f"Needs the right {needed}.")))


def _operation_id(verb: str, path: str) -> str:
    words = [word for word in re.split(r"\W+", path) if word]
    return "_".join((verb.lower(), *words))


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
    return {"required": call.is_body_required, "content": {_JSON: content}}


def _responses(call: Call, schemas: Schemas) -> Schema:
    responses: dict[str, object] = {str(status): _result(call, status, schemas) for status in (call.status, *call.also)}
    if call.face is Face.GANETI:
        return {**responses, "default": _refusal("an error of Ganeti", _JSON, _ganeti_error(schemas))}
    problem = schemas.of(Problem)
    for status in sorted(_refusals(call)):
        responses[str(status)] = _refusal(HTTPStatus(status).phrase, MEDIA_TYPE, problem)
    return responses


def _refusals(call: Call) -> set[int]:
    statuses = {*_ALWAYS, *call.errors, *(_WITH_RIGHTS if call.rights else ())}
    if call.verb != "GET":
        statuses.update(_WITH_BODY)
    return statuses - {call.status, *call.also}


def _result(call: Call, status: int, schemas: Schemas) -> Schema:
    result: dict[str, object] = {"description": HTTPStatus(status).phrase}
    if status != HTTPStatus.NO_CONTENT:
        # of events some readers check each, others the text of all; the types of both stand in the description
        schema = {} if call.media_type == _EVENTS else schemas.of(call.gives)
        result["content"] = {call.media_type: {"schema": schema}}
    return result


def _refusal(text: str, media_type: str, schema: Schema) -> Schema:
    return {"description": text, "content": {media_type: {"schema": schema}}}


class GanetiError:
    """An error under /2."""


def _ganeti_error(schemas: Schemas) -> Schema:
    kinds = {"code": {"type": "integer"}, "message": {"type": "string"}, "explain": {"type": "string"}}
    schema = {"type": "object", "description": "An error under /2.", "properties": kinds, "required": list(kinds)}
    return schemas.named(GanetiError, lambda: schema)


# The rows that show the document: as JSON, and as a page for people.
#
# Source: DESIGN section 15.


_HTML: Final = "text/html; charset=utf-8"


class _Kept:
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

    as_json = _Kept(lambda: orjson.dumps(document()), "application/json")
    docs = _Kept(lambda: draw_docs(document()), _HTML)
    problems = _Kept(draw_problems, _HTML)
    css = _Kept(lambda: CSS, "text/css; charset=utf-8")
    own.append(
        Call(
            "GET",
            "/3/openapi.json",
            as_json.reply,
            "This document.",
            gives=Mapping[str, object],
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
