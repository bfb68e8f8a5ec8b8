"""Server-sent events from bytes, whole or in pieces."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ProtocolError
from protocol.rapid.clients import replies
from protocol.rapid.clients.replies import Event, EventParser

_STREAM = b'\xef\xbb\xbfid: 7\r\nevent: jobs\r\ndata: {"a":1}\r\n\r\n: ping\n\nretry: 1500\nid\ndata: x\ndata:  y\n\n'
_EVENTS = [Event("jobs", '{"a":1}', "7"), Event("message", "x\n y", "")]


@given(cuts=st.lists(st.integers(0, len(_STREAM)), max_size=12))
def test_events_do_not_depend_on_how_their_bytes_are_cut(cuts: list[int]) -> None:
    parser, places = EventParser(), [0, *sorted(cuts), len(_STREAM)]

    events = [event for start, end in pairwise(places) for event in parser.feed(_STREAM[start:end])]

    assert events == _EVENTS
    assert parser.retry_s == 1.5


def test_a_lone_carriage_return_ends_a_line() -> None:
    parser = EventParser()

    assert [*parser.feed(b"data: a\r\rdata: b\r\r")] == [Event("message", "a", ""), Event("message", "b", "")]


def test_an_event_without_an_id_keeps_the_place_of_the_one_before() -> None:
    parser = EventParser("5")

    assert [event.id for event in parser.feed(b"data: a\n\nid: 6\ndata: b\n\ndata: c\n\n")] == ["5", "6", "6"]
    assert parser.last_id == "6"


def test_an_event_that_is_not_complete_is_not_told() -> None:
    assert [*EventParser().feed(b"data: a\n")] == []


def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "MAX_EVENT", 1000)
    parser = EventParser()
    for _ in range(30):
        assert [*parser.feed(b": ping after ping is no event\n\n")] == []

    with pytest.raises(ProtocolError):
        [*parser.feed(b"data: one line after the other\n" * 40)]


def test_a_long_line_in_many_pieces_costs_little() -> None:
    parser, piece, count = EventParser(), b"x" * 8192, 4096
    began = time.process_time()

    assert [*parser.feed(b"data: ")] == []
    for _ in range(count):
        assert [*parser.feed(piece)] == []
    (event,) = parser.feed(b"\n\n")

    assert len(event.data) == len(piece) * count
    # a copy of all at each piece takes more than a minute
    assert time.process_time() - began < 10
