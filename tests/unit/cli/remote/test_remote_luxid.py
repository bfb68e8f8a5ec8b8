"""The transport of LUXI to another machine: what is sent again, how long it takes, and what is no reply."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import attrs
import pytest

from cli import remote
from cli.remote import RemoteFeed, RemoteLuxid
from common.errors import ConnectionLost, ProtocolError, RemoteError, Unavailable
from common.ids import JobId
from protocol.luxi.feed import FeedBegin, FeedTopic, Subscribe
from protocol.luxi.jobs import CancelJob, ReadJobOutput, SubmitJob, SubmitOnce
from protocol.luxi.queries import QueryJobs
from protocol.luxi.queue import ListSchedules
from protocol.messages import AnyRequest
from protocol.rapid.clients.place import Place
from protocol.rapid.luxi import STREAM_TYPE

HOST: Final = "127.0.0.1"
# the server closes the connection
LOST: Final = None


@attrs.frozen
class Reply:
    body: bytes
    status: int = 200
    kind: str = "application/json"
    retry_after: str | None = None


@attrs.define
class Server:
    """Gives its replies one after the other, the last one again and again."""

    place: Place
    replies: list[Reply | None] = attrs.field(factory=list)
    # path and body of each request
    asked: list[tuple[str, object]] = attrs.field(factory=list)


def result(value: object, **more: object) -> Reply:
    return Reply(json.dumps({"success": True, "result": value, **more}).encode())


def problem(status: int, code: str, retry_after: str | None = None) -> Reply:
    body = json.dumps({"status": status, "code": code, "detail": "why"}).encode()
    return Reply(body, status, "application/problem+json", retry_after)


@contextmanager
def serving(*replies: Reply | None) -> Iterator[Server]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            served.asked.append((self.path, json.loads(body)))
            reply = served.replies.pop(0) if len(served.replies) > 1 else served.replies[0]
            self.close_connection = True
            if reply is None:
                return
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            if reply.retry_after is not None:
                self.send_header("Retry-After", reply.retry_after)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((HOST, 0), Handler)
    served = Server(Place.at(f"http://{HOST}:{server.server_port}"), list(replies))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_message_is_the_arguments_by_position_and_notes_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(remote, "show_note", notes.append)
    with serving(result([["running"]], notes=["one is left out"])) as server, RemoteLuxid(server.place) as luxid:
        assert luxid.call(QueryJobs((JobId(7),), ("status",))) == (("running",),)

    assert server.asked == [("/luxi/QueryJobs", [[7], ["status"]])]
    assert notes == ["one is left out"]


def test_reading_is_sent_again_when_the_reply_is_lost() -> None:
    with serving(LOST, result([])) as server, RemoteLuxid(server.place) as luxid:
        assert luxid.call(ListSchedules(0)) == ()

    assert len(server.asked) == 2


@pytest.mark.parametrize("request_", [CancelJob(JobId(7)), SubmitJob(({},)), SubmitOnce((({},),), "nightly")])
def test_a_change_whose_reply_is_lost_is_not_sent_again_but_told_as_lost(request_: AnyRequest) -> None:
    with serving(LOST) as server, RemoteLuxid(server.place) as luxid, pytest.raises(ConnectionLost):
        luxid.call(request_)

    assert len(server.asked) == 1


def test_a_submission_with_a_key_of_its_own_is_sent_again() -> None:
    with serving(LOST, result(17)) as server, RemoteLuxid(server.place) as luxid:
        assert luxid.call(SubmitJob(({},), "k-1")) == 17

    assert server.asked == [("/luxi/SubmitJob", [[{}], "k-1"])] * 2


def test_a_change_is_sent_again_where_the_caller_wants_it() -> None:
    done = result([True, "job 7 is canceled"])
    with serving(LOST, LOST, done) as server, RemoteLuxid(server.place) as luxid:
        assert luxid.call_retrying(CancelJob(JobId(7)), timeout_s=30).is_done

    assert len(server.asked) == 3


def test_a_wait_is_no_longer_than_a_proxy_lets_it() -> None:
    with serving(result({"text": "", "next_offset": 0, "is_end": False})) as server, RemoteLuxid(server.place) as luxid:
        luxid.call(ReadJobOutput(JobId(7), 0, 89.0))

    assert server.asked == [("/luxi/ReadJobOutput", [7, 0, 50.0])]


def test_a_call_with_a_limit_of_time_keeps_to_it() -> None:
    began = time.monotonic()
    with socket.create_server((HOST, 0)) as silent:
        place = Place.at(f"http://{HOST}:{silent.getsockname()[1]}")
        with RemoteLuxid(place) as luxid, pytest.raises(Unavailable, match="gave no reply in time"):
            luxid.call(ListSchedules(0), timeout_s=0.2)

    # without a limit it is a minute
    assert time.monotonic() - began < 30


def test_a_limit_of_time_is_for_all_attempts_together() -> None:
    began = time.monotonic()
    busy = problem(503, "unavailable", retry_after="5")
    with serving(busy) as server, RemoteLuxid(server.place) as luxid, pytest.raises(Unavailable, match="why"):
        luxid.call(ListSchedules(0), timeout_s=2.0)

    assert len(server.asked) == 1
    assert time.monotonic() - began < 4


def test_a_refusal_of_the_server_is_told_with_what_to_do() -> None:
    replies = problem(401, "unauthenticated"), problem(404, "not_found"), problem(403, "denied")
    told: list[str] = []
    with serving(*replies) as server, RemoteLuxid(server.place) as luxid:
        for _ in replies:
            with pytest.raises(RemoteError) as caught:
                luxid.call(ListSchedules(0))
            told.append(caught.value.message)

    assert told == [
        f"{server.place.name} does not know who calls: why; give --token-file FILE, or $GANTRY_TOKEN",
        "why; is the Gantry there older than this one?",
        "why",
    ]


def test_what_is_no_message_of_luxi_is_told() -> None:
    with serving(Reply(b"[]")) as server, RemoteLuxid(server.place) as luxid, pytest.raises(ProtocolError):
        luxid.call(ListSchedules(0))
    with (
        serving(Reply(b"<html>", kind="text/html")) as server,
        RemoteLuxid(server.place) as luxid,
        pytest.raises(Unavailable, match="does not reply as Gantry does"),
    ):
        luxid.call(ListSchedules(0))


def test_a_feed_is_read_message_by_message_until_it_ends() -> None:
    begun = json.dumps({"success": True, "result": {"position": "1"}}).encode()
    news = json.dumps({"jsonrpc": "2.0", "method": "changes", "params": ["2", {}]}).encode()
    with serving(Reply(begun + b"\x03  " + news + b"\x03", kind=STREAM_TYPE)) as server:
        feed = RemoteFeed(server.place)
        assert feed.subscribe(Subscribe((FeedTopic.JOBS,), (JobId(7),))) == FeedBegin("1")
        assert feed.event(30) == ("changes", ["2", {}])
        with pytest.raises(Unavailable, match="ended the stream"):
            feed.event(30)
        feed.close()

    assert server.asked[0][0] == "/luxi/Subscribe"
