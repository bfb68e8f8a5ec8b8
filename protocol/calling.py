"""The caller's side of the envelope in Ganeti's dialect: the bytes of a request, and what a reply says.

Sans-IO.

Source: DESIGN section 4; luxid.md 1.2-1.6.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from common.asciijson import ascii_json
from common.errors import GantryError, InvalidRequest, ProtocolError, RemoteError, remote_class
from protocol.envelope import decode, shorten
from protocol.speaker import Speaker


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
    if not isinstance(reply, dict) or "success" not in reply or "result" not in reply:
        raise ProtocolError(f"the reply lacks 'success' or 'result': {shorten(payload[:80].decode(errors='replace'))}")
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
