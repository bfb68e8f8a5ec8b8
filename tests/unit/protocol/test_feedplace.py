"""How far a subscriber has read: what it asks for when it comes back."""

from common.ids import JobId
from common.queue.jobs import LogEntry
from protocol.luxi.feed import FeedBegin, FeedChanges, FeedPlace, FeedTopic, JobNews, OutputNews, OutputPlace, Subscribe
from protocol.luxi.jobs import OutputStream

ONE, TWO = JobId(1), JobId(2)
OUTPUT = OutputStream.OUTPUT


def entry(serial: int) -> LogEntry:
    return LogEntry(serial, (1, 0), "message", "text")


def test_a_place_that_was_never_left_asks_as_at_first() -> None:
    asked = Subscribe((FeedTopic.JOBS,), (ONE, TWO), log_after=(0, 0), outputs=(OutputPlace(ONE, OUTPUT, 0),))

    assert FeedPlace(asked).request() == asked


def test_what_was_read_is_not_asked_for_again() -> None:
    places = (OutputPlace(ONE, OUTPUT, 0), OutputPlace(TWO, OUTPUT, 0))
    place = FeedPlace(Subscribe((FeedTopic.JOBS,), (ONE, TWO), log_after=(0, 0), outputs=places))

    place.begin(FeedBegin("x:3", jobs=[[1, ["running"], [[1, [1, 0], "message", "text"]]], [2, ["queued"], []]]))
    outputs = (OutputNews(ONE, OUTPUT, "", 4, True), OutputNews(TWO, OUTPUT, "abc", 3, False))
    place.go_on("x:5", FeedChanges(jobs=(JobNews(TWO, ("running",), (entry(1), entry(2))),), outputs=outputs))

    again = place.request()
    assert (place.position, again.since, again.log_after) == ("x:5", "x:5", (1, 2))
    assert again.outputs == (OutputPlace(TWO, OUTPUT, 3),)
    assert [place.serial_of(job_id) for job_id in (ONE, TWO)] == [1, 2]


def test_without_output_none_is_asked_for() -> None:
    place = FeedPlace(Subscribe((), outputs=(OutputPlace(ONE, OUTPUT, 0),)))

    place.drop_outputs()

    assert place.request() == Subscribe(())
