"""Calls and streams step by step, as the clients with and without an event loop carry them out."""

import socket
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from common.errors import ConnectionLost, Unavailable
from protocol import conversation
from protocol.conversation import DaemonConversation, Retries
from protocol.framing import ETX
from protocol.messages import Request


@attrs.frozen
class Ask(Request[str]):
    METHOD = "ask"

    text: str


@attrs.define
class _Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The daemon's end of the only connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    monkeypatch.setattr(conversation, "dial", lambda _path, _daemon: ours)
    with ours, theirs:
        yield theirs


@pytest.fixture
def talk(clock: _Clock) -> DaemonConversation:
    return DaemonConversation(Path("/run/socket"), "luxid", clock)


def _fails(_path: Path, _daemon: str) -> socket.socket:
    raise Unavailable("nobody there")


def test_a_call_waits_only_for_its_reply(talk: DaemonConversation, daemon: socket.socket) -> None:
    steps = talk.exchange(Ask("x"))

    wait = next(steps)
    assert (wait.for_writing, wait.deadline) == (False, None)
    assert daemon.recv(1000) == b'{"method":"ask","args":["x"]}' + ETX
    daemon.sendall(b"reply" + ETX)
    with pytest.raises(StopIteration) as end:
        steps.send(True)
    assert end.value.value == b"reply"


def test_a_large_request_waits_until_it_can_be_sent(talk: DaemonConversation, daemon: socket.socket) -> None:
    steps = talk.start(Ask("x" * 2**22), limit_s=5)

    wait = next(steps)

    assert (wait.for_writing, wait.deadline) == (True, 1005)
    with pytest.raises(Unavailable, match="luxid at /run/socket gave no answer to ask in time"):
        steps.send(False)
    assert talk.sock is None


def test_a_late_reply_closes_the_connection(talk: DaemonConversation, daemon: socket.socket) -> None:
    steps = talk.exchange(Ask("x"), limit_s=5)
    next(steps)

    with pytest.raises(Unavailable, match="gave no answer to ask in time"):
        steps.send(False)
    assert talk.sock is None


@pytest.mark.parametrize("rest", [b"", b"half a reply"])
def test_a_connection_that_ends_is_lost(talk: DaemonConversation, daemon: socket.socket, rest: bytes) -> None:
    steps = talk.exchange(Ask("x"))
    next(steps)
    daemon.sendall(rest)
    daemon.close()

    with pytest.raises(ConnectionLost, match="closed the connection before it answered"):
        steps.send(True)
    assert talk.sock is None


def test_a_call_that_is_given_up_closes_the_connection(talk: DaemonConversation, daemon: socket.socket) -> None:
    steps = talk.exchange(Ask("x"))
    next(steps)

    steps.close()

    assert talk.sock is None


def test_messages_of_a_stream_come_one_by_one(talk: DaemonConversation, daemon: socket.socket) -> None:
    list(talk.open())
    daemon.sendall(b"one" + ETX + b"two" + ETX)

    for expected in (b"one", b"two"):
        with pytest.raises(StopIteration) as end:
            next(talk.message())
        assert end.value.value == expected


def test_a_stream_that_is_quiet_for_its_time_goes_on(talk: DaemonConversation, daemon: socket.socket) -> None:
    list(talk.open())
    steps = talk.message(limit_s=1)
    next(steps)

    with pytest.raises(StopIteration) as end:
        steps.send(False)

    assert end.value.value is None
    assert talk.sock is not None


def test_a_daemon_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> None:
    monkeypatch.setattr(conversation, "dial", _fails)
    talk = DaemonConversation(Path("/run/socket"), "luxid", clock, connect_timeout_s=10)

    def try_on() -> None:
        for wait in talk.start(Ask("x"), limit_s=5):
            assert wait.sock is None
            assert wait.deadline is not None
            clock.now = wait.deadline

    with pytest.raises(Unavailable, match="nobody there"):
        try_on()
    assert 1004 <= clock.now <= 1005


def test_a_daemon_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, clock: _Clock) -> None:
    monkeypatch.setattr(conversation, "dial", _fails)
    talk = DaemonConversation(Path("/run/socket"), "luxid", clock, 10, is_coming=lambda: False)

    with pytest.raises(Unavailable):
        list(talk.open())
    assert clock.now == 1000


def test_retries_end_with_the_last_error_at_their_time(clock: _Clock) -> None:
    retries = Retries(5, clock, Unavailable("silence"))
    retries.failed(Unavailable("nobody there"))
    pauses: list[float] = []

    def try_on() -> None:
        while True:
            pauses.append(retries.pause_s())
            clock.now += pauses[-1]

    with pytest.raises(Unavailable, match="nobody there"):
        try_on()
    assert clock.now == pytest.approx(1005)
    assert pauses[:3] == [0.02, 0.04, 0.08]
    assert max(pauses) == 1


def test_retries_of_a_silent_daemon_end_with_that(clock: _Clock) -> None:
    retries = Retries(5, clock, Unavailable("silence"))
    clock.now += 5

    with pytest.raises(Unavailable, match="silence"):
        retries.pause_s()
