"""The envelope around calls and replies, in both dialects: Ganeti's own and JSON-RPC 2.0.

Sans-IO. A request with the key `jsonrpc`, or a list of requests, is JSON-RPC; all others are Ganeti's.
The request's shape decides the reply's. All that we send is pure ASCII, which every client reads.
Ganeti's clients read only `success` and `result` of a reply. Our error replies have a third
key, `error`, with the code and the fields that do not fit into `[name, args]`; replies to queries may have
`notes`: a list of texts for people about the result.

Source: DESIGN section 4; luxid.md 1.2-1.6; wconfd.md 1.2-1.5; JSON-RPC 2.0, sections 4-6.
"""

import contextlib
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn

import attrs
import orjson

from common.errors import GantryError, InvalidRequest, ProtocolError, RemoteError, UnknownMethod, remote_class
from common.jsontext import TooDeep, ascii_json, read_json
from protocol.peer import Speaker, read_speaker

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
# JSON-RPC codes of our own codes; all others are internal errors
SERVER_CODES: Final[Mapping[str, int]] = {
    "invalid": INVALID_PARAMS,
    "not_found": -32001,
    "conflict": -32002,
    "order_violation": -32003,
    "denied": -32004,
    "unavailable": -32005,
    "over_limit": -32006,
    "precondition_failed": -32007,
}


class Dialect(enum.Enum):
    """The form of a message's envelope."""

    GANETI = "ganeti"
    JSONRPC = "jsonrpc"


CallId = str | int | float | None


@attrs.frozen
class Call:
    """One request to call a method."""

    method: str
    # arguments by position or by name; Ganeti's dialect has only positions
    params: list[object] | dict[str, object]
    dialect: Dialect = Dialect.GANETI
    call_id: CallId = None
    # whether it is a notification, which gets no reply, not even an error
    notification: bool = False
    speaker: Speaker | None = None


class MalformedRequest(InvalidRequest):
    """the message is not a request"""

    def __init__(
        self,
        message: str,
        *,
        dialect: Dialect = Dialect.GANETI,
        call_id: CallId = None,
        rpc_code: int = INVALID_REQUEST,
        only_arguments: bool = False,
        is_call: bool = False,
    ) -> None:
        super().__init__(message)
        # dialect as far as it can be known, so that the reply has the shape its reader expects
        self.dialect = dialect
        self.call_id = call_id
        self.rpc_code = rpc_code
        # whether the envelope is right, but the arguments are not a list: daemons differ in what follows
        self.only_arguments = only_arguments
        # whether the envelope may well be right, so that the connection is of use
        self.is_call = is_call


@attrs.frozen
class CallBatch:
    """A list of JSON-RPC calls with one list as reply; a bad element gets its own error."""

    calls: tuple[Call | MalformedRequest, ...]


def read_message(payload: bytes) -> Call | CallBatch:
    """Read one request message; surrounding white space and invalid UTF-8 are tolerated.

    Raises: MalformedRequest: it is not a request in either dialect.
    """
    try:
        value = _decode(payload)
    except TooDeep as error:
        raise _too_deep(payload, error) from None
    except ValueError as error:
        dialect = Dialect.JSONRPC if b'"jsonrpc"' in payload else Dialect.GANETI
        raise MalformedRequest(f"request is not JSON: {error}", dialect=dialect, rpc_code=PARSE_ERROR) from None
    if isinstance(value, dict):
        return _read_jsonrpc(value) if "jsonrpc" in value else _read_ganeti(value)
    if isinstance(value, list):
        if not value:
            raise MalformedRequest("empty batch: a list must hold at least one request", dialect=Dialect.JSONRPC)
        return CallBatch(tuple(map(_read_element, value)))
    raise MalformedRequest(f"request is not an object but {shorten(value)}")


def decode(payload: bytes) -> object:
    """Read the JSON of a reply; invalid UTF-8 is tolerated. Raises: ValueError."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return orjson.loads(_mended(payload))


def _decode(payload: bytes) -> object:
    """Read the JSON of a request, as `decode`. Raises: ValueError, TooDeep."""
    try:
        return read_json(payload)
    except orjson.JSONDecodeError:
        return read_json(_mended(payload))


def _mended(payload: bytes) -> str:
    """The text without its invalid UTF-8. Raises: orjson.JSONDecodeError: there is none, so it is no JSON."""
    text = payload.decode(errors="replace")
    if "�" not in text:
        orjson.loads(payload)
    return text


def _too_deep(payload: bytes, error: TooDeep) -> MalformedRequest:
    call_id: CallId = None
    dialect = Dialect.JSONRPC if b'"jsonrpc"' in payload else Dialect.GANETI
    if dialect is Dialect.JSONRPC:
        # only the parser goes into it, as far as it can
        with contextlib.suppress(ValueError):
            value = decode(payload)
            found = value.get("id") if isinstance(value, dict) else None
            call_id = found if isinstance(found, str | int | float) and not isinstance(found, bool) else None
    return MalformedRequest(error.message, dialect=dialect, call_id=call_id, rpc_code=INVALID_PARAMS, is_call=True)


def _read_ganeti(value: dict[str, object]) -> Call:
    method = value.get("method")
    if not isinstance(method, str):
        raise MalformedRequest(_wrong_key(value, "method", "a string"))
    args = value.get("args")
    if not isinstance(args, list):
        raise MalformedRequest(_wrong_key(value, "args", "a list"), only_arguments="args" in value)
    return Call(method, args, speaker=_speaker(value, Dialect.GANETI, None))


def _read_jsonrpc(value: dict[str, object]) -> Call:
    call_id = value.get("id")
    if isinstance(call_id, bool) or not isinstance(call_id, str | int | float | None):
        raise _bad_rpc("key 'id' must be a string, a number or null", None)
    if value["jsonrpc"] != "2.0":
        raise _bad_rpc(f"key 'jsonrpc' must be '2.0', got {shorten(value['jsonrpc'])}", call_id)
    method = value.get("method")
    if not isinstance(method, str):
        raise _bad_rpc(_wrong_key(value, "method", "a string"), call_id)
    params = value.get("params", [])
    if not isinstance(params, list | dict):
        raise _bad_rpc(_wrong_key(value, "params", "a list or an object"), call_id)
    speaker = _speaker(value, Dialect.JSONRPC, call_id)
    return Call(method, params, Dialect.JSONRPC, call_id, "id" not in value, speaker)


def _speaker(value: dict[str, object], dialect: Dialect, call_id: CallId) -> Speaker | None:
    if "speaker" not in value:
        return None
    try:
        return read_speaker(value["speaker"])
    except InvalidRequest as error:
        raise MalformedRequest(error.message, dialect=dialect, call_id=call_id) from None


def _read_element(value: object) -> Call | MalformedRequest:
    if not isinstance(value, dict):
        return _bad_rpc(f"request is not an object but {shorten(value)}", None)
    try:
        return _read_jsonrpc({"jsonrpc": None, **value})
    except MalformedRequest as error:
        return error


def _bad_rpc(message: str, call_id: CallId) -> MalformedRequest:
    return MalformedRequest(message, dialect=Dialect.JSONRPC, call_id=call_id)


def _wrong_key(value: dict[str, object], key: str, expected: str) -> str:
    if key not in value:
        return f"request has no key '{key}'; it must be {expected}"
    return f"key '{key}' must be {expected}, got {shorten(value[key])}"


def shorten(value: object) -> str:
    """A value of a message for an error text."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value[:80]) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def success(call: Call, value: object) -> bytes:
    """The reply with a result; `value` is JSON-able, and may contain `orjson.Fragment`s.

    Raises: TypeError, ValueError, RecursionError: the value is not JSON-able.
    """
    if call.dialect is Dialect.GANETI:
        return ascii_json({"success": True, "result": value})
    return ascii_json({"jsonrpc": "2.0", "result": value, "id": call.call_id})


def success_frame(call: Call) -> tuple[bytes, bytes]:
    """The bytes before and after the result in a reply; notes come directly after the result."""
    if call.dialect is Dialect.GANETI:
        return b'{"success":true,"result":', b"}"
    return b'{"jsonrpc":"2.0","result":', b',"id":%b}' % ascii_json(call.call_id)


def notes_part(notes: Sequence[str]) -> bytes:
    """The part of a reply with the notes; empty without any."""
    return b',"notes":%b' % ascii_json(list(notes)) if notes else b""


def failure(to: Call | MalformedRequest | Dialect, error: GantryError, *, plain: bool = False) -> bytes:
    """The reply with an error, in the dialect of the call, as far as it is known.

    Args:
        plain: in Ganeti's dialect, reply with a bare text, the form for malformed requests.
    """
    dialect = to if isinstance(to, Dialect) else to.dialect
    if dialect is Dialect.JSONRPC:
        call_id = None if isinstance(to, Dialect) else to.call_id
        return ascii_json({"jsonrpc": "2.0", "error": _rpc_error(error), "id": call_id})
    if plain:
        return ascii_json({"success": False, "result": error.message})
    extra = {"code": error.code, **_kind(error), "fields": error.fields}
    return ascii_json({"success": False, "result": [error.wire_name, error.wire_args()], "error": extra})


def _rpc_error(error: GantryError) -> dict[str, object]:
    data = {**error.fields, "code": error.code, **_kind(error), "error": error.wire_name, "args": error.wire_args()}
    return {"code": _rpc_code(error), "message": error.message, "data": data}


def _kind(error: GantryError) -> dict[str, str]:
    return {} if error.kind is None else {"kind": error.kind}


def _rpc_code(error: GantryError) -> int:
    if isinstance(error, MalformedRequest):
        return error.rpc_code
    if isinstance(error, UnknownMethod):
        return METHOD_NOT_FOUND
    return SERVER_CODES.get(error.code, INTERNAL_ERROR)


def batch_reply(replies: Sequence[bytes]) -> bytes:
    """The one reply to a batch; `replies` are the replies to its calls, at least one."""
    return b"[" + b",".join(replies) + b"]"


# The caller's side of the envelope in Ganeti's dialect: the bytes of a request, and what a reply says.
#
# Sans-IO.
#
# Source: DESIGN section 4; luxid.md 1.2-1.6.


def request_bytes(method: str, args: Sequence[object], speaker: Speaker | None = None) -> bytes:
    """The payload of a call in Ganeti's dialect, with arguments by position; and in this user's name."""
    if speaker is not None:
        return ascii_json({"method": method, "args": args, "speaker": speaker.wire})
    return ascii_json({"method": method, "args": args})


def read_reply(payload: bytes, noted: Callable[[str], None] | None = None) -> object:
    """Return the result from a reply in Ganeti's dialect.

    Args:
        noted: called with each note beside the result.
    Raises:
        RemoteError: the daemon replied with an error.
        ProtocolError: the payload is not a reply.
    """
    try:
        reply = decode(payload)
    except ValueError as error:
        raise ProtocolError(f"the reply is not JSON: {error}") from None
    return result_of(reply, noted)


def result_of(reply: object, noted: Callable[[str], None] | None = None) -> object:
    """As `read_reply`, of a reply whose JSON was read."""
    if not isinstance(reply, dict) or "success" not in reply or "result" not in reply:
        raise ProtocolError(f"the reply lacks 'success' or 'result': {shorten(str(reply)[:80])}")
    if reply["success"]:
        if noted is not None:
            for note in _texts(reply.get("notes")):
                noted(note)
        return reply["result"]
    _raise_remote(reply["result"], reply.get("error"))


def _texts(notes: object) -> list[str]:
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _raise_remote(result: object, extra: object) -> NoReturn:
    if not isinstance(extra, dict):
        extra = {}
    match result:
        case [str(wire_name), list(args)]:
            message = args[0] if args and isinstance(args[0], str) else wire_name
            code = extra.get("code") or _CODES.get(wire_name, GantryError.code)
            raise remote_class(extra.get("kind"))(
                message, code=code, wire_name=wire_name, wire_args=args, **_fields(extra)
            )
        case str():
            raise RemoteError(result, code="invalid", wire_name=InvalidRequest.wire_name, wire_args=[result])
        case _:
            raise ProtocolError(f"the error reply has an unknown form: {shorten(result)}")


def _fields(extra: dict[str, object]) -> dict[str, object]:
    fields = extra.get("fields")
    reserved = {"self", "message", "code", "wire_name", "wire_args"}
    return {key: value for key, value in fields.items() if key not in reserved} if isinstance(fields, dict) else {}


def _classes(kind: type[GantryError]) -> Iterator[type[GantryError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _classes(child)


# several classes share the name GenericError, so it implies no code
# of several classes with one name the first counts: the usual one
_CODES: Final = {
    kind.wire_name: kind.code
    for kind in reversed(list(_classes(GantryError)))
    if kind.wire_name != GantryError.wire_name
}


# Events that a daemon sends on a connection after its reply, as messages.
#
# Source: DESIGN section 8; JSON-RPC 2.0, section 4.1.


# method of the last notification of a stream that the daemon ends: [code, message]
STREAM_ENDED: Final = "streamEnded"


def read_event(payload: bytes) -> tuple[str, list[object]]:
    """The name and the parameters of an event.

    Raises: RemoteError: the daemon has ended the stream, with this reason. ProtocolError: it is not an event.
    """
    try:
        message = read_message(payload)
    except InvalidRequest as error:
        raise ProtocolError(f"expected an event: {error}") from error
    if not isinstance(message, Call) or not isinstance(message.params, list):
        raise ProtocolError(f"expected an event, got {payload[:60]!r}")
    if message.method == STREAM_ENDED:
        if len(message.params) != 2:
            raise ProtocolError(f"the end of a stream came with parameters of another shape: {message.params!r}")
        code, text = map(str, message.params)
        raise RemoteError(text, code=code, wire_name="GenericError", wire_args=[text])
    return message.method, message.params
