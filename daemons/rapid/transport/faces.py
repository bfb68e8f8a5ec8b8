"""Replies: values as JSON, and errors in the form of each face.

Source: rapi.md sections 1 and 4; RFC 9457.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from html import escape
from http import HTTPStatus
from typing import Final

import attrs
import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from common.asciijson import ascii_json
from common.errors import GantryError, InternalError, InvalidRequest, Unavailable
from common.system.log import get_log
from common.wire import unstructure
from daemons.rapid.calls import Call, Face, Given
from daemons.rapid.refusals import Refused, Silent, status_of
from protocol.http.connection import Failure
from protocol.rapid.problems import CODES, MEDIA_TYPE, type_of

_JSON: Final = "application/json"
# what a client is asked for that has said no name
_CHALLENGES: Final = {
    Face.GANETI: 'Basic realm="Ganeti Remote API"',
    Face.OURS: 'Basic realm="Ganeti Remote API", Bearer realm="gantry"',
}
# members of problem details that facts about an error do not replace
_PROBLEM_KEYS: Final = frozenset({"type", "title", "status", "detail", "instance", "code"})
_log: Final = get_log(__name__)

# Ganeti's status for a luxid that cannot be reached
_GANETIS_SILENCE: Final = 504
# draws an error for a person
DrawError = Callable[[HttpRequest, int, GantryError], Awaitable[Response]]


async def plain_error(_: HttpRequest, status: int, error: GantryError) -> Response:
    """An error as text, where no page is drawn."""
    return Response(f"{status} {_phrase(status)}\n\n{error.message}\n", status, media_type="text/plain")


@attrs.frozen
class Faces:
    """The forms of replies."""

    draw_error: DrawError = plain_error

    async def refusal(self, face: Face, http: HttpRequest, error: GantryError) -> Response:
        """The reply for an error."""
        status = _GANETIS_SILENCE if face is Face.GANETI and isinstance(error, Silent) else status_of(error)
        if face is Face.PAGE:
            response = await self.draw_error(http, status, error)
        elif face is Face.GANETI:
            response = Response(_ganeti_error(status, error), status, media_type=_JSON)
        else:
            response = Response(_problem(status, error), status, media_type=MEDIA_TYPE)
        if status == HTTPStatus.UNAUTHORIZED and face in _CHALLENGES:
            response.headers["WWW-Authenticate"] = _CHALLENGES[face]
        if isinstance(error, Unavailable):
            response.headers["Retry-After"] = "1"
        if isinstance(error, Refused):
            response.headers.update(error.headers)
        return response


def no_request(status: int) -> Failure:
    """The reply to what is no request, so that its face is not known; Ganeti's clients can read no other form."""
    return Failure(_JSON, _ganeti_error(status, InvalidRequest(_explanation(status))))


def success(call: Call, value: object) -> Response:
    """The reply with what a handler has returned. Raises: TypeError, ValueError: it cannot be written as JSON."""
    if isinstance(value, Response):
        return value
    given = value if isinstance(value, Given) else Given(value, call.status)
    if given.status == HTTPStatus.NO_CONTENT:
        return Response(None, given.status, dict(given.headers))
    headers: Mapping[str, str] = given.headers
    return Response(_written(given.value) + b"\n", given.status, dict(headers), media_type=_JSON)


def _written(value: object) -> bytes:
    """A value as JSON. What luxid tells is JSON already and is not converted again, only typed values in it are.

    Raises: TypeError, ValueError: it cannot be written as JSON.
    """
    try:
        text = orjson.dumps(value, default=unstructure)
    except TypeError:
        # as `ascii_json`: numbers beyond 64 bits, keys that are no texts, deep nesting
        text = b""
    return text if text and text.isascii() else ascii_json(unstructure(value))


def bug(call: Call) -> InternalError:
    """The error for the caller where a handler has failed; the log has the rest. Call it in an `except` clause."""
    bug_id = secrets.token_hex(4)
    _log.exception("call.crashed", id=bug_id, verb=call.verb, path=call.path)
    return InternalError(f"internal error {bug_id}; the log of rapid has it under this id", id=bug_id)


def _ganeti_error(status: int, error: GantryError) -> bytes:
    text = escape(error.message or _phrase(status))
    return ascii_json({"code": status, "message": text, "explain": _explanation(status)}) + b"\n"


def _problem(status: int, error: GantryError) -> bytes:
    facts = {name: value for name, value in error.fields.items() if name not in _PROBLEM_KEYS}
    title, _ = CODES.get(error.code, (_phrase(status), ""))
    head = {"type": type_of(error.code), "title": title, "status": status, "detail": error.message}
    return orjson.dumps({**head, "code": error.code, **facts}, default=str) + b"\n"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _explanation(status: int) -> str:
    try:
        return HTTPStatus(status).description or HTTPStatus(status).phrase
    except ValueError:
        return "Error"
