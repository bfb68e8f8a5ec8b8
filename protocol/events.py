"""Events that a daemon sends on a connection after its reply, as messages.

Source: DESIGN section 8; JSON-RPC 2.0, section 4.1.
"""

from typing import Final

from common.errors import InvalidRequest, ProtocolError, RemoteError
from protocol.envelope import Call, read_message

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
