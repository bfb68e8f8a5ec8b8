"""The blocking client against a real server in a thread."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from common.errors import ConnectionLost, RemoteError, Unavailable
from protocol import blocking
from protocol.blocking import BlockingClient
from protocol.envelope import Call, success
from protocol.framing import ETX
from tests.daemon.protocol.echo import Add, Echo, Find, Hold, Repeat, listening, serving_in_thread

GOOD_REPLY = success(Call("echo", []), "x") + ETX


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def client(path: Path) -> Iterator[BlockingClient]:
    with serving_in_thread(path), BlockingClient(path, daemon="luxid") as client:
        yield client


class FakeTime:
    """A clock that only moves when somebody sleeps, and calls back then."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    clock = FakeTime()
    monkeypatch.setattr(blocking, "time", clock)
    return clock


@attrs.frozen
class ScriptedServer:
    """Gives each connection one scripted reply to one request, then closes it."""

    thread: threading.Thread
    received: list[bytes]
    # released once for each connection that it closed
    closed: threading.Semaphore


def scripted(path: Path, *replies: bytes) -> ScriptedServer:
    listener = listening(path)
    received: list[bytes] = []
    closed = threading.Semaphore(0)

    def run() -> None:
        with listener:
            for reply in replies:
                sock, _ = listener.accept()
                with sock:
                    received.append(sock.recv(4096))
                    sock.sendall(reply)
                closed.release()

    thread = threading.Thread(target=run)
    thread.start()
    return ScriptedServer(thread, received, closed)


def test_call_gives_the_typed_reply(client: BlockingClient) -> None:
    assert client.call(Echo("é中")) == "é中"
    assert client.call(Add(1, 2)) == 3


def test_large_request_and_reply_pass(client: BlockingClient) -> None:
    assert client.call(Echo("x" * 5_000_000)) == "x" * 5_000_000
    assert len(client.call(Repeat("x", 5_000_000))) == 5_000_000


def test_error_reply_is_raised_with_code_and_fields(client: BlockingClient) -> None:
    with pytest.raises(RemoteError, match="no such thing 'x'") as caught:
        client.call(Find("x"))

    assert (caught.value.code, caught.value.fields) == ("not_found", {"name": "x"})
    assert client.call(Echo("on")) == "on"


def test_started_call_is_finished_later(client: BlockingClient) -> None:
    first, second = Echo("one"), Echo("two")

    client.start(first)
    assert client.finish(first) == "one"
    client.start(second)
    assert client.finish(second) == "two"


def test_second_start_before_the_finish_is_a_bug(client: BlockingClient) -> None:
    request = Echo("one")
    client.start(request)

    with pytest.raises(RuntimeError, match="echo is not finished"):
        client.start(Echo("two"))
    assert client.finish(request) == "one"


def test_finish_without_start_is_a_bug(client: BlockingClient) -> None:
    with pytest.raises(RuntimeError, match="was not started"):
        client.finish(Echo("one"))


def test_daemon_that_is_not_there_is_waited_for_then_named(path: Path, clock: FakeTime) -> None:
    with pytest.raises(Unavailable, match=rf"^luxid does not answer at {path}: no such file.*is it running\?"):
        BlockingClient(path, daemon="luxid", connect_timeout_s=30).call(Echo("x"))

    assert 1029 <= clock.now <= 1030


def test_retrying_ends_at_its_timeout(path: Path, clock: FakeTime) -> None:
    with pytest.raises(Unavailable, match="does not answer at"):
        BlockingClient(path, connect_timeout_s=30).call_retrying(Echo("x"), timeout_s=5)

    assert 1003 <= clock.now <= 1005


def test_daemon_that_refuses_is_named(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    with pytest.raises(Unavailable, match="connection refused"):
        BlockingClient(path, connect_timeout_s=0).call(Echo("x"))


def test_full_backlog_is_waited_for(path: Path, clock: FakeTime) -> None:
    with socket.socket(socket.AF_UNIX) as listener, ExitStack() as stack:
        listener.bind(str(path))
        listener.listen(0)
        waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
        waiting.connect(str(path))

        with pytest.raises(Unavailable, match="too many callers"):
            BlockingClient(path, connect_timeout_s=30).call(Echo("x"))

    assert clock.now >= 1029


def test_daemon_that_comes_later_is_reached(path: Path, clock: FakeTime) -> None:
    with ExitStack() as stack:

        def start_once() -> None:
            clock.on_sleep = lambda: None
            stack.enter_context(serving_in_thread(path))

        clock.on_sleep = start_once
        with BlockingClient(path) as client:
            assert client.call(Echo("x")) == "x"


def test_client_outlives_a_restart(path: Path) -> None:
    with BlockingClient(path) as client:
        with serving_in_thread(path):
            assert client.call(Echo("one")) == "one"
        with serving_in_thread(path):
            assert client.call(Echo("two")) == "two"


def test_connection_lost_before_the_reply_is_told(path: Path) -> None:
    server = scripted(path, b"")

    with BlockingClient(path, daemon="luxid") as client, pytest.raises(ConnectionLost, match=r"luxid at .* closed"):
        client.call(Echo("x"))
    server.thread.join()


def test_connection_lost_inside_the_reply_is_told(path: Path) -> None:
    server = scripted(path, GOOD_REPLY[:5])

    with BlockingClient(path) as client, pytest.raises(ConnectionLost):
        client.call(Echo("x"))
    server.thread.join()


def test_retrying_sends_the_same_request_again(path: Path) -> None:
    server = scripted(path, b"", GOOD_REPLY[:5], GOOD_REPLY)

    with BlockingClient(path) as client:
        assert client.call_retrying(Echo("x")) == "x"
    server.thread.join()

    assert len(server.received) == 3
    assert len(set(server.received)) == 1


def test_error_reply_is_not_retried(path: Path) -> None:
    server = scripted(path, b'{"success":false,"result":["JobLost",["gone"]]}\x03')

    with BlockingClient(path) as client, pytest.raises(RemoteError, match="gone"):
        client.call_retrying(Echo("x"))
    server.thread.join()

    assert len(server.received) == 1


def test_connection_closed_after_a_reply_is_opened_again(path: Path) -> None:
    server = scripted(path, GOOD_REPLY, GOOD_REPLY)

    with BlockingClient(path) as client:
        assert client.call(Echo("one")) == "x"
        server.closed.acquire()
        assert client.call(Echo("two")) == "x"
    server.thread.join()


def test_late_reply_is_not_taken_for_the_next(client: BlockingClient) -> None:
    with pytest.raises(Unavailable, match="gave no answer to hold in time"):
        client.call(Hold(), timeout_s=0.01)

    assert client.call(Echo("next")) == "next"


def test_closed_client_opens_again(client: BlockingClient) -> None:
    client.call(Echo("one"))
    client.close()

    assert client.call(Echo("two")) == "two"


def test_import_brings_no_event_loop() -> None:
    code = "import sys, protocol.blocking; print(sorted({'trio', 'rich', 'click', 'asyncio'} & set(sys.modules)))"

    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert shown.stdout == "[]\n"
