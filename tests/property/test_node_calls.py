"""Calls of node daemons: what is written is read again as the same, request and reply of every class (noded.md 4)."""

import base64
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.noded.call import PACKED_FROM, AnyCall, Content, read_reply, read_request, reply_body, request_body
from protocol.noded.statefiles import JobqueueRename
from tests.support.machines.noded import CLASSES, reply_type, values_of

KINDS = [pytest.param(kind, id=name) for name, kind in CLASSES.items()]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_request_is_read_as_it_was_written(kind: type[AnyCall], data: st.DataObject) -> None:
    call = data.draw(values_of(kind))

    body = request_body(call)

    assert body.isascii()
    assert read_request(kind, body) == call


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_reply_is_read_as_it_was_written(kind: type[AnyCall], data: st.DataObject) -> None:
    call: AnyCall = data.draw(values_of(kind))
    reply: Any = data.draw(values_of(reply_type(kind)))
    if isinstance(call, JobqueueRename):
        reply = tuple(None for _ in call.moves)

    assert read_reply(call, reply_body(kind, reply)) == reply


@given(st.binary(min_size=1, max_size=50), st.integers(1, 3 * PACKED_FROM))
@settings(deadline=None)
def test_content_travels_whole_whatever_its_bytes_and_size(part: bytes, size: int) -> None:
    content = Content((part * (size // len(part) + 1))[:size])

    wire = content.to_wire()

    assert Content.from_wire(wire) == content
    # packed whenever Latin-1 and UTF-8 would differ
    assert isinstance(wire, list)
    assert (wire[0] == 0) == (size < PACKED_FROM and content.data.isascii())


@given(st.binary(max_size=300))
def test_a_text_that_is_not_packed_content_is_refused(data: bytes) -> None:
    packed = zlib.compress(data)

    for broken in (packed[:-1], packed + b"x", data):
        with pytest.raises(Exception, match="packed content"):
            Content.from_wire([1, base64.b64encode(broken).decode()])
