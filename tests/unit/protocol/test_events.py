"""Events of a stream that are none."""

import pytest

from common.errors import ProtocolError, RemoteError
from protocol.envelope import read_event


@pytest.mark.parametrize(
    "payload",
    [
        b"no JSON",
        b"{}",
        b"[]",
        b'{"jsonrpc": "2.0", "method": "streamEnded", "params": []}',
        b'{"jsonrpc": "2.0", "method": "streamEnded", "params": ["denied", "gone", 1]}',
    ],
)
def test_what_is_no_event_is_told_as_such(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_event(payload)


def test_the_end_of_a_stream_is_the_error_of_its_reason() -> None:
    with pytest.raises(RemoteError, match="gone") as caught:
        read_event(b'{"jsonrpc": "2.0", "method": "streamEnded", "params": ["denied", "gone"]}')

    assert caught.value.code == "denied"
