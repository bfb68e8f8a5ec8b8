"""The body of a request as the value that its row names.

Source: rapi.md 3.
"""

from typing import Final, cast
from urllib.parse import parse_qs

import orjson
from starlette.requests import Request as HttpRequest

from common.errors import InvalidRequest
from common.jsonreading import read_json
from common.system.inthread import in_thread
from common.wire import structure
from daemons.rapid.calls import Call, Face
from daemons.rapid.refusals import Refused

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 20_000
# bytes from which a body is read in a thread
_LARGE: Final = 64 * 1024


async def read_body(call: Call, http: HttpRequest, raw: bytes) -> object:
    """Return the body as an instance of `call.takes`; a form of a page as a dict of name to list of texts.

    Raises: Refused: 415, the body is not JSON, or of a page no form. InvalidRequest: it is not such a value, or it is
        missing.
    """
    if not raw:
        if call.takes is not None and call.is_body_required and call.face is not Face.GANETI:
            raise InvalidRequest(f"{call.verb} {http.url.path} needs a body")
        return None
    _check_type(call.face, http.headers.get("content-type", ""))
    if call.takes is None and call.face is not Face.GANETI:
        raise InvalidRequest(f"{call.verb} {http.url.path} takes no body")
    if len(raw) >= _LARGE:
        return await in_thread(_parse, call, raw)
    return _parse(call, raw)


def _check_type(face: Face, content_type: str) -> None:
    """Raises: Refused."""
    # Ganeti refuses a parameter after the type; it does no harm
    kind = content_type.partition(";")[0].strip()
    wanted = _FORM if face is Face.PAGE else _JSON
    if kind.lower() != wanted:
        raise Refused(415, f"the content type of the body must be '{wanted}', got '{content_type[:80]}'")


def _parse(call: Call, raw: bytes) -> object:
    if call.face is Face.PAGE:
        return _form(raw)
    try:
        value = read_json(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if call.takes is None or call.takes is object:
        return value
    # a class, or a type made of classes
    return structure(value, cast(type[object], call.takes), "body")


def _form(raw: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise InvalidRequest(f"the form cannot be read: {error}") from None
