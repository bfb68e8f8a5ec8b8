"""A keepalive logs in where etcd asks for a user, and again when its token is not known any more (lease.md 1 and 5)."""

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from daemons.keeperd.renewing.duties import EtcdMember, NoWholeReply, ask_for_lease
from daemons.keeperd.renewing.orders import ResolvedEndpoint, Setup
from protocol.etcd.credentials import EtcdCredentials

LIMIT_S = 30.0


class Guarded(ThreadingHTTPServer):
    """A member of a release that asks for a token with each keepalive; Debian's does not."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = "abc.1"
        self.logins = 0
        # reply to all keepalives instead; empty: none
        self.broken = b""

    @property
    def endpoint(self) -> EtcdMember:
        port = self.server_address[1]
        return EtcdMember(ResolvedEndpoint(socket.AF_INET, ("127.0.0.1", port), "127.0.0.1", port, is_tls=False), None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Guarded

    def do_POST(self) -> None:  # the name that the base class calls
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v3/auth/authenticate":
            self.server.logins += 1
            is_right = body == {"name": "root", "password": "secret"}
            self._reply(*((200, {"token": self.server.token}) if is_right else (400, {"error": "wrong", "code": 3})))
        elif self.server.broken:
            self._send(200, self.server.broken)
        elif self.headers.get("Authorization") != self.server.token:
            self._reply(401, {"error": "etcdserver: invalid auth token", "code": 16})
        else:
            self._reply(200, {"result": {"ID": body["ID"], **({"TTL": "60"} if body["ID"] == "7" else {})}})

    def _reply(self, status: int, content: object) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def member() -> Iterator[Guarded]:
    with Guarded() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def who(tmp_path: Path) -> EtcdCredentials:
    path = tmp_path / "password"
    path.write_text("secret\n")
    return EtcdCredentials(Setup("unused", (), user="root", password_file=str(path)))


def test_it_logs_in_once_and_again_when_the_token_is_not_known(member: Guarded, who: EtcdCredentials) -> None:
    endpoint = member.endpoint

    assert [ask_for_lease(endpoint, who, 7, LIMIT_S) for _ in range(3)] == [60.0] * 3
    assert member.logins == 1
    member.token = "abc.2"
    assert ask_for_lease(endpoint, who, 7, LIMIT_S) == 60.0
    assert member.logins == 2
    endpoint.close()


def test_a_lease_without_a_time_is_gone(member: Guarded, who: EtcdCredentials) -> None:
    endpoint = member.endpoint

    assert ask_for_lease(endpoint, who, 8, LIMIT_S) == 0
    endpoint.close()


@pytest.mark.parametrize(
    "reply",
    [
        *(b"no JSON", b"[]", b'{"error": {"message": "no leader"}}', b'{"result": 5}'),
        *(b'{"result": {"ID": "7", "TTL": null}}', b'{"result": {"ID": "7", "TTL": "-1"}}', b'{"result": {"ID": "9"}}'),
    ],
)
def test_what_decides_nothing_is_silence(member: Guarded, who: EtcdCredentials, reply: bytes) -> None:
    member.broken = reply
    endpoint = member.endpoint

    with pytest.raises(NoWholeReply):
        ask_for_lease(endpoint, who, 7, LIMIT_S)
    endpoint.close()


def test_a_member_that_accepts_and_never_replies_costs_no_more_than_its_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        endpoint = EtcdMember(
            ResolvedEndpoint(socket.AF_INET, ("127.0.0.1", port), "127.0.0.1", port, is_tls=False), None
        )

        with pytest.raises(NoWholeReply, match="no reply in time"):
            ask_for_lease(endpoint, None, 7, 0.05)


def test_a_password_that_was_changed_since_the_start_is_read_again(member: Guarded, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("earlier\n")
    who = EtcdCredentials(Setup("unused", (), user="root", password_file=str(path)))
    path.write_text("secret\n")
    endpoint = member.endpoint

    assert ask_for_lease(endpoint, who, 7, LIMIT_S) == 60.0
    assert member.logins == 2
    endpoint.close()
