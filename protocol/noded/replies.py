"""Bodies of replies: `[true, payload]` or `[false, text]`, and a newline.

Source: noded.md section 4.
"""

import json
from typing import TypeVar

import orjson

from common.errors import GantryError, ProtocolError
from protocol.messages import structure_reply
from protocol.noded.call import NodeCall

R = TypeVar("R")

NO_TEXT = "the node daemon gave no reason"


class CallRefused(GantryError):
    """a node daemon refused a call"""

    code = "conflict"


def reply_body(kind: type[NodeCall[R]], reply: R) -> bytes:
    """The body of the reply to a call that was carried out, as Ganeti's node daemon writes it."""
    return _body(True, kind.write_reply(reply))


def failure_body(text: str) -> bytes:
    """The body of the reply to a call that failed."""
    return _body(False, text)


def _body(success: bool, payload: object) -> bytes:
    # with spaces, as Ganeti's
    return json.dumps([success, payload], allow_nan=False).encode("ascii") + b"\n"


def read_reply(call: NodeCall[R], body: bytes) -> R:
    """Read the payload of a reply to this call.

    Raises:
        CallRefused: the reply is a failure; the text is the node daemon's.
        ProtocolError: the body is not a reply, or not one to this call.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"the reply is not JSON: {error}, it begins with {body[:40]!r}") from None
    match value:
        case [True, payload]:
            return _payload(call, payload)
        case [False, str(text)]:
            raise CallRefused(text or NO_TEXT)
        case _:
            raise ProtocolError(f"the reply is not [success, payload], it begins with {body[:40]!r}")


def _payload(call: NodeCall[R], payload: object) -> R:
    try:
        reply = structure_reply(type(call), payload)
    except GantryError as error:
        raise ProtocolError(error.message) from error
    if not call.accepts(reply):
        raise ProtocolError(f"the reply to {call.METHOD} does not fit its arguments: {str(payload)[:40]}")
    return reply
