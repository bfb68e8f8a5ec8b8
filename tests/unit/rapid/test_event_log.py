"""The log of events is bounded, and tells each reader only what it wants (DESIGN section 15)."""

import pytest

from common.ids import JobId
from daemons.rapid.events.hub import EventLog, StreamPosition
from daemons.rapid.streams import server_sent
from protocol.rapid.events import Topic


def test_events_are_kept_up_to_a_number_and_a_size() -> None:
    log = EventLog(most_events=3, most_bytes=100)
    for number in range(5):
        log.add(Topic.QUEUE, "queue", number)

    assert [event.serial for event in log.after(2) or ()] == [3, 4, 5]
    assert log.after(1) is None
    assert log.after(5) == []
    assert log.after(6) is None

    log.add(Topic.QUEUE, "queue", "x" * 98)
    assert [event.serial for event in log.after(5) or ()] == [6]
    assert log.after(4) is None
    log.add(Topic.QUEUE, "queue", "x" * 200)
    # one that is larger than all that may be kept is for nobody
    assert log.after(6) is None
    assert log.after(7) == []


def test_a_reader_gets_its_topics_and_of_jobs_its_own() -> None:
    log = EventLog()
    jobs = log.add_jobs({JobId(7): {"id": 7}, JobId(8): {"id": 8}})
    state = log.add(None, "state", {"luxid": True})

    assert jobs.data_for({Topic.JOBS}, None) == b'{"jobs":[{"id":7},{"id":8}]}'
    assert jobs.data_for({Topic.JOBS}, {JobId(8), JobId(9)}) == b'{"jobs":[{"id":8}]}'
    assert jobs.data_for({Topic.JOBS}, {JobId(9)}) is jobs.data_for({Topic.LOCKS}, None) is None
    assert state.data_for((), {JobId(9)}) == b'{"luxid":true}'


def test_an_event_is_three_lines_and_an_empty_one() -> None:
    assert server_sent(StreamPosition("a1", 7).text(), "queue", b"{}") == b"id: a1-7\nevent: queue\ndata: {}\n\n"


@pytest.mark.parametrize("text", ["", "7", "a1", "a1-", "-7", "a1-x", "a1-7 ", "A1-7", "a1-" + "9" * 19])
def test_only_our_ids_are_places(text: str) -> None:
    assert StreamPosition.read("a1-7") == StreamPosition("a1", 7)
    assert StreamPosition.read(text) is None
