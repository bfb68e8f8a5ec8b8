"""The OpenAPI 3.1 document of a table of calls.

Source: OpenAPI 3.1; RFC 9457.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from daemons.rapid.calls import Call, Face, Parameter
from daemons.rapid.openapi.opcodeschemas import any_opcode
from daemons.rapid.openapi.ownforms import Schema
from daemons.rapid.openapi.schemas import Schemas
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
    shown = [call for call in table if call.face is not Face.PAGE]
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


def _parameter(parameter: Parameter) -> Schema:
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
