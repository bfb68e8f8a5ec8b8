"""What the clients send, and when again: conversations without I/O."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import attrs
import httpx2
import orjson
import pytest

from common.errors import ConnectionLost, RemoteError, Unavailable
from common.queue.jobs import JobState
from protocol.rapid.clients import calls
from protocol.rapid.clients.blocking import RapidClient
from protocol.rapid.clients.conversations import Answer, CallAttempt, Conversation, Conversations, EventStreams, Found
from protocol.rapid.clients.place import Place
from protocol.rapid.clients.replies import FIRST_PATIENCE_S, Event, HttpReply, NoReply
from protocol.rapid.clients.trioclient import TrioRapidClient

T = TypeVar("T")
_PLACE = Place.at("https://gantry.example.com:5080")
_REFUSED = httpx2.ConnectError("refused")
_BROKEN = httpx2.ReadError("broken")


@attrs.define
class _Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def talks(clock: _Clock) -> Conversations:
    return Conversations(_PLACE, 60.0, 60.0, clock)


def reply(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpReply:
    kind = "application/json" if status == 200 else "application/problem+json"
    return HttpReply(status, {"content-type": kind, **(headers or {})}, orjson.dumps(value))


def carry_out(talk: Conversation[T], clock: _Clock, *answers: Answer) -> tuple[T, Sequence[CallAttempt]]:
    """The value, and the attempts that were made, each of which took no time."""
    left, attempts = list(answers), []
    try:
        attempt = next(talk)
        while True:
            attempts.append(attempt)
            clock.now += attempt.pause_s
            attempt = talk.send(left.pop(0))
    except StopIteration as end:
        assert not left
        return end.value, attempts


def test_a_submission_is_sent_again_with_its_key(talks: Conversations, clock: _Clock) -> None:
    taken = reply({"jobs": [{"id": 5}], "earlier": True})

    job_id, attempts = carry_out(talks.submit([{"OP_ID": "OP_TEST_DUMMY"}]), clock, _BROKEN, taken)

    first, second = attempts
    assert job_id == 5
    assert first.options["headers"]["Idempotency-Key"] == second.options["headers"]["Idempotency-Key"] != ""
    assert first.options["content"] == second.options["content"]
    assert first.pause_s == 0 < second.pause_s


def test_a_change_that_may_have_arrived_is_sent_once(talks: Conversations, clock: _Clock) -> None:
    with pytest.raises(ConnectionLost, match="closed the connection before it replied"):
        carry_out(talks.cancel(5), clock, _BROKEN)


def test_a_change_that_did_not_arrive_is_sent_again(talks: Conversations, clock: _Clock) -> None:
    done, attempts = carry_out(talks.cancel(5), clock, _REFUSED, reply({"message": "canceled"}))

    assert (done.message, len(attempts)) == ("canceled", 2)


def test_a_refusal_is_not_asked_again(talks: Conversations, clock: _Clock) -> None:
    with pytest.raises(RemoteError, match="no such job"):
        carry_out(talks.why(5), clock, reply({"detail": "no such job", "code": "not_found"}, 404))


def test_a_server_that_has_replied_is_waited_for_longer(talks: Conversations, clock: _Clock) -> None:
    def patience_s() -> float:
        began = clock.now
        with pytest.raises(Unavailable, match="cannot be reached"):
            carry_out(talks.locks(), clock, *[_REFUSED] * 1000)
        return clock.now - began

    assert patience_s() <= FIRST_PATIENCE_S
    carry_out(talks.locks(), clock, reply({"locks": []}))
    assert 50 < patience_s() <= 60


def test_a_limit_holds_for_all_attempts_together(talks: Conversations, clock: _Clock) -> None:
    talk = talks.run(calls.get_queue(), limit_s=1.0)
    first = next(talk)
    clock.now += 0.5
    second = talk.send(_REFUSED)
    clock.now += 0.49

    assert (first.options["timeout"].read, first.options["timeout"].connect) == (1.0, 1.0)
    assert second.options["timeout"].read == pytest.approx(0.5 - second.pause_s)
    with pytest.raises(Unavailable):
        talk.send(_REFUSED)


def test_a_wait_is_asked_again_until_its_time_is_over(talks: Conversations, clock: _Clock) -> None:
    talk = talks.wait(5, timeout_s=70)
    running = reply({"job": {"id": 5, "status": "running"}, "log": []})

    first = next(talk)
    clock.now += 50
    second = talk.send(running)
    clock.now += 20
    with pytest.raises(StopIteration) as end:
        talk.send(running)

    assert [each.options["params"]["timeout"] for each in (first, second)] == ["50", "20"]
    assert end.value.value.status is JobState.RUNNING


def test_a_list_goes_on_where_its_page_ended(talks: Conversations) -> None:
    talk = talks.jobs(page=1)
    next(talk)

    found = talk.send(reply({"jobs": [{"id": 5}], "next": "after-5"}))
    assert isinstance(found, Found)
    assert [job.id for job in found.values] == [5]
    again = next(talk)
    assert isinstance(again, CallAttempt)
    assert orjson.loads(again.options["content"] or b"")["cursor"] == "after-5"
    assert isinstance(talk.send(reply({"jobs": [], "next": None})), Found)
    assert next(talk, None) is None


def _broken(streams: EventStreams, clock: _Clock, times: int) -> None:
    for _ in range(times):
        clock.now += streams.pause_s
        streams.broke(None)


def test_a_stream_that_ends_is_opened_again_after_its_last_event(talks: Conversations) -> None:
    streams = talks.events((), (), "")
    (event,) = streams.parser.feed(b"retry: 1500\nid: 7\nevent: reasons\ndata: {}\n\n")

    assert [news.id for news in streams.take(event)] == ["7"]
    streams.broke(None)

    assert (streams.parser.last_id, streams.pause_s) == ("7", 1.5)


def test_a_stream_of_a_server_that_stays_away_is_given_up(talks: Conversations, clock: _Clock) -> None:
    streams = talks.events((), (), "")
    # it was quiet for long, which is no attempt
    clock.now += 3600

    with pytest.raises(NoReply, match="ended the stream of events"):
        _broken(streams, clock, 1000)
    assert clock.now - 4600 < FIRST_PATIENCE_S


def test_an_event_begins_the_attempts_anew(talks: Conversations, clock: _Clock) -> None:
    streams = talks.events((), (), "")

    for _ in range(10):
        _broken(streams, clock, 3)
        list(streams.take(Event("reasons", "{}", "7")))

    assert clock.now - 1000 > FIRST_PATIENCE_S


@pytest.mark.parametrize("client", [RapidClient, TrioRapidClient])
def test_both_clients_have_each_method(client: type[object]) -> None:
    names = {name for name, value in vars(Conversations).items() if callable(value) and not name.startswith("_")}

    assert names - {"next_pause"} <= vars(client).keys()
    assert all(getattr(client, name).__doc__ for name in names - {"next_pause"})
