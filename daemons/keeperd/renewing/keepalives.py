"""One blocking request to etcd after another, each with a time limit of its own, over a kept connection.

Source: lease.md 1 and 5.
"""

import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, TypeVar

import h11
import orjson

from daemons.keeperd.renewing.orders import Place
from protocol.etcd.credentials import Credentials
from protocol.etcd.replyfields import Json, lease_seconds, token
from protocol.etcd.tlscontexts import TlsContexts

R = TypeVar("R")
_OK: Final = 200
_CHUNK: Final = 64 * 1024
_MAX_REPLY: Final = 2**20


class Silent(Exception):
    """There is no whole reply; in words."""


class Endpoint:
    """One member of etcd; raises `Silent` for all that is not a reply."""

    def __init__(self, place: Place, tls: TlsContexts | None) -> None:
        self.place = place
        self._tls = tls if place.is_tls else None
        self._sock: socket.socket | None = None
        self._http = h11.Connection(h11.CLIENT)
        # token of the user; empty: none yet
        self.token = ""

    def post(self, path: str, body: bytes, limit_s: float) -> tuple[int, bytes]:
        """Return status and body of the reply. Raises: Silent."""
        until = time.monotonic() + limit_s
        try:
            sock = self._connection(until)
            if self._http.our_state is h11.DONE:
                self._http.start_next_cycle()
            _bound(sock, until)
            sock.sendall(self._request(path, body))
            status, reply = self._reply(sock, until)
        except (OSError, h11.ProtocolError, Silent) as error:
            self.close()
            if isinstance(error, ssl.SSLError) and self._tls is not None:
                # perhaps a certificate has expired, and another one lies there
                self._tls.refused()
            raise Silent(_words(error)) from error
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self.close()
        return status, reply

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _connection(self, until: float) -> socket.socket:
        if self._sock is None:
            sock = socket.socket(self.place.family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                _bound(sock, until)
                sock.connect(self.place.address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    _bound(sock, until)
                    sock = self._tls.current.wrap_socket(sock, server_hostname=self.place.host)
            except BaseException:
                sock.close()
                raise
            self._sock, self._http = sock, h11.Connection(h11.CLIENT)
        return self._sock

    def _request(self, path: str, body: bytes) -> bytes:
        lines = [("Host", self.place.label), ("Content-Length", str(len(body)))]
        if self.token:
            lines.append(("Authorization", self.token))
        parts = (
            self._http.send(h11.Request(method="POST", target=path, headers=lines)),
            self._http.send(h11.Data(data=body)),
            self._http.send(h11.EndOfMessage()),
        )
        return b"".join(part or b"" for part in parts)

    def _reply(self, sock: socket.socket, until: float) -> tuple[int, bytes]:
        status, body = 0, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                _bound(sock, until)
                self._http.receive_data(sock.recv(_CHUNK))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _MAX_REPLY:
                    raise Silent("its reply is too long")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif not isinstance(event, h11.InformationalResponse):
                raise Silent("it closed the connection")


def authenticate(endpoint: Endpoint, who: Credentials, limit_s: float) -> None:
    """Get a token of the user; with the password that is in its file now, if that of before is refused.

    Raises: Silent.
    """
    until = time.monotonic() + limit_s
    endpoint.token = ""
    status, reply = _log_in(endpoint, who, limit_s)
    if status != _OK and who.has_changed():
        status, reply = _log_in(endpoint, who, until - time.monotonic())
    # else authentication may be switched off: the request itself will tell
    if status == _OK:
        endpoint.token = _read(reply, token)


def _log_in(endpoint: Endpoint, who: Credentials, limit_s: float) -> tuple[int, bytes]:
    body = orjson.dumps({"name": who.user, "password": who.password})
    return endpoint.post("/v3/auth/authenticate", body, limit_s)


def ask_for_lease(endpoint: Endpoint, who: Credentials | None, lease: int, limit_s: float) -> float:
    """Renew it; return the seconds that it lives, 0 if etcd says that it is gone. Raises: Silent: nothing is known."""
    until = time.monotonic() + limit_s
    body = orjson.dumps({"ID": str(lease)})
    if who is not None and not endpoint.token:
        authenticate(endpoint, who, limit_s)
    status, reply = endpoint.post("/v3/lease/keepalive", body, until - time.monotonic())
    if status != _OK and who is not None and _is_about_token(status, reply):
        authenticate(endpoint, who, until - time.monotonic())
        status, reply = endpoint.post("/v3/lease/keepalive", body, until - time.monotonic())
    if status != _OK:
        raise Silent(f"it replied with {status}: {reply[:100]!r}")
    # 200 without a time is a lease that is gone
    return float(_read(reply, lambda found: lease_seconds(found, lease)))


def _is_about_token(status: int, reply: bytes) -> bool:
    return status == 401 or b"invalid auth token" in reply or b"user name is empty" in reply


def _read(reply: bytes, read: Callable[[Json], R]) -> R:
    """Raises: Silent: the reply is damaged, or not etcd's, so it decides nothing."""
    try:
        return read(orjson.loads(reply))
    except orjson.JSONDecodeError as error:
        raise Silent(f"it replied with something else: {reply[:100]!r}") from error
    except ValueError as error:
        raise Silent(f"it replied with something else: {error}") from error


def _bound(sock: socket.socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise Silent("no reply in time")
    sock.settimeout(left)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no reply in time"
    return str(getattr(error, "strerror", None) or error).lower()
