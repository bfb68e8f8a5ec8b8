"""Find the row of a request by its path and verb.

Ganeti's paths are compared as they were sent, other paths after their escapes are decoded.

Source: rapi.md 3.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.parser import BytesParser
from email.policy import HTTP
from html import escape
from http import HTTPStatus
from re import Pattern
from typing import Final, cast
from urllib.parse import parse_qs

import attrs
import orjson
from starlette.convertors import Convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from common.errors import GantryError, InternalError, InvalidRequest, Unavailable
from common.jsontext import ascii_json, read_json
from common.system.inthread import in_thread
from common.system.log import get_log
from common.wire import read_asked, unstructure
from daemons.rapid.calls import Call, Face, Given, MergePatch
from daemons.rapid.refusals import RequestRefused, Silent, status_of
from protocol.http.connection import BadRequestReply
from protocol.rapid.problems import CODES, MEDIA_TYPE, type_of

# longer paths name nothing
_MAX_PATH: Final = 2000
_GANETI: Final = "/2/"


@attrs.frozen
class MatchedRoute:
    """The row of a request, or what there is instead."""

    face: Face
    # None: there is no such path, or not with this verb
    call: Call | None = None
    # values of the path's variables
    params: Mapping[str, object] = attrs.field(factory=dict)
    # verbs that the path has; empty: there is no such path
    verbs: tuple[str, ...] = ()


@attrs.frozen
class _Route:
    pattern: Pattern[str]
    convertors: Mapping[str, Convertor[object]]
    # by verb
    calls: dict[str, Call] = attrs.field(factory=dict)

    def params_of(self, path: str) -> dict[str, object] | None:
        match = self.pattern.match(path)
        if match is None:
            return None
        return {name: self.convertors[name].convert(text) for name, text in match.groupdict().items()}


class Routes:
    """The rows by their paths; of paths that overlap, the first row's is taken."""

    def __init__(self, table: Sequence[Call]) -> None:
        by_path: dict[str, _Route] = {}
        for call in table:
            if call.path not in by_path:
                pattern, _, convertors = compile_path(call.path)
                by_path[call.path] = _Route(pattern, convertors)
            verb, verbs = call.verb.upper(), by_path[call.path].calls
            assert verb not in verbs, f"two rows for {verb} {call.path}"
            verbs[verb] = call
        # of all paths
        self.verbs: Final = sorted({verb for route in by_path.values() for verb in route.calls} | {"HEAD"})
        self._plain = {path: route for path, route in by_path.items() if "{" not in path}
        # paths with variables, by their beginning: a request is compared with few of them
        self._patterns: dict[str, list[_Route]] = {}
        for path, route in by_path.items():
            if "{" in path:
                assert "{" not in _beginning(path), f"{path} begins with a variable"
                self._patterns.setdefault(_beginning(path), []).append(route)

    def find(self, scope: Scope) -> MatchedRoute:
        """The row for a request. Args: scope: that of ASGI."""
        path = _path(scope)
        route, params = self._route(path)
        if route is None:
            return MatchedRoute(face_of(path))
        verb, calls = scope["method"], route.calls
        face = next(iter(calls.values())).face
        call = calls.get(verb)
        if call is None and verb == "HEAD" and face is not Face.GANETI:
            call = calls.get("GET")
        return MatchedRoute(call.face if call else face, call, params, tuple(calls))

    def _route(self, path: str) -> tuple[_Route | None, Mapping[str, object]]:
        if (route := self._plain.get(path)) is not None:
            return route, {}
        if len(path) <= _MAX_PATH:
            for route in self._patterns.get(_beginning(path), ()):
                if (params := route.params_of(path)) is not None:
                    return route, params
        return None, {}


def face_of(path: str) -> Face:
    """The face of a path that has no row."""
    if path in ("/", "/version", "/2") or path.startswith(_GANETI):
        return Face.GANETI
    return Face.PAGE if path == "/ui" or path.startswith("/ui/") else Face.OURS


def _beginning(path: str) -> str:
    """The first two parts: "/3/jobs"."""
    return "/".join(path.split("/", 3)[:3])


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    text = raw.decode("latin-1")
    return text if text.startswith(_GANETI) else scope["path"]


# The body of a request as the value that its row names.
#
# Source: rapi.md 3.


_JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_FORM: Final = "application/x-www-form-urlencoded"
# of a form with a file
_PARTS: Final = "multipart/form-data"
_MAX_FIELDS: Final = 20_000
_MAX_PARTS: Final = 100
# bytes from which a body is read in a thread
_LARGE: Final = 64 * 1024


async def read_body(call: Call, http: HttpRequest, raw: bytes) -> object:
    """Return the body as an instance of `call.takes`, or a `MergePatch` of one.

    A form of a page is a dict of name to list of texts.

    A file of a form is a text, too, with lone surrogates in place of bytes that are not UTF-8; its own name stands
    under that of its field with `.filename` behind it.

    Raises: RequestRefused: 415, the body is not JSON, or of a page no form. InvalidRequest: it is not such a value, or
        it is missing.
    """
    if not raw:
        if call.takes is not None and call.is_body_required and call.face is not Face.GANETI:
            raise InvalidRequest(f"{call.verb} {http.url.path} needs a body")
        return None
    content_type = http.headers.get("content-type", "")
    _check_type(call, content_type)
    if call.takes is None and call.face is not Face.GANETI:
        raise InvalidRequest(f"{call.verb} {http.url.path} takes no body")
    if len(raw) >= _LARGE:
        return await in_thread(_parse, call, raw, content_type)
    return _parse(call, raw, content_type)


def body_types(call: Call) -> tuple[str, ...]:
    """The media types that a body may have."""
    if call.face is Face.PAGE:
        return (_FORM, _PARTS)
    return (_JSON, MERGE_PATCH) if call.merges else (_JSON,)


def _check_type(call: Call, content_type: str) -> None:
    """Raises: RequestRefused."""
    # Ganeti refuses a parameter after the type; it does no harm
    kind = content_type.partition(";")[0].strip()
    wanted = body_types(call)
    if kind.lower() not in wanted:
        raise RequestRefused(
            415,
            f"the content type of the body must be {' or '.join(map(repr, wanted))}, got '{content_type[:80]}'",
            headers={"Accept-Patch": ", ".join(wanted)} if call.verb == "PATCH" else {},
        )


def _parse(call: Call, raw: bytes, content_type: str) -> object:
    if call.face is Face.PAGE:
        return _form(raw) if content_type.lower().startswith(_FORM) else _parts(raw, content_type)
    try:
        value = read_json(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if call.takes is None or call.takes is object:
        return value
    # a class, or a type made of classes
    wish = read_asked(value, cast(type[object], call.takes))
    if not call.merges:
        return wish
    assert isinstance(value, Mapping)
    return MergePatch(wish, tuple(name for name, member in value.items() if member is None))


def _form(raw: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequest(f"the form cannot be read: {error}") from None


def _parts(raw: bytes, content_type: str) -> dict[str, list[str]]:
    """A form with files. Raises: InvalidRequest: it cannot be read, or has too many fields."""
    if "\r" in content_type or "\n" in content_type or not content_type.isascii():
        raise InvalidRequest("the form cannot be read: its content type is malformed")
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head, headersonly=True)
    boundary = message.get_boundary()
    if not boundary:
        raise InvalidRequest("the form cannot be read: its content type names no boundary")
    # before the parser makes an object of each
    if raw.count(f"--{boundary}".encode(errors="replace")) > _MAX_PARTS + 1:
        raise InvalidRequest(f"the form has more than {_MAX_PARTS} fields")
    found: dict[str, list[str]] = {}
    for part in BytesParser(policy=HTTP).parsebytes(head + raw).walk():
        name = part.get_param("name", header="content-disposition")
        content = None if part.is_multipart() else part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            continue
        file_name = part.get_filename()
        if file_name is not None:
            found.setdefault(f"{name}.filename", []).append(file_name)
        try:
            text = content.decode("utf-8", "strict" if file_name is None else "surrogateescape")
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"the form cannot be read: {error}") from None
        found.setdefault(name, []).append(text)
    return found


# Replies: values as JSON, and errors in the form of each face.
#
# Source: rapi.md sections 1 and 4; RFC 9457.


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
        if isinstance(error, RequestRefused):
            response.headers.update(error.headers)
        if status == HTTPStatus.PRECONDITION_FAILED and (tag := error.fields.get("current_tag")):
            response.headers["ETag"] = f'"{tag}"'
        return response


def no_request(status: int) -> BadRequestReply:
    """The reply to what is no request, so that its face is not known; Ganeti's clients can read no other form."""
    return BadRequestReply(_JSON, _ganeti_error(status, InvalidRequest(_explanation(status))))


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
