"""The work of the renewing process: keepalives, the deadline, the watchdog; one thing after the other.

Theory. Nothing here takes longer than the limit of one request, so keeperd's intent, the deadline and the watchdog are
looked at that often. Each keepalive counts from before it was sent. One that comes back after the deadline changes
nothing any more, whatever etcd says. keeperd's silence ends the renewals: a main process that hangs must not stay the
master.

Source: lease.md 7 and 8.
"""

import array
import contextlib
import fcntl
import math
import os
import select
import socket
import ssl
import stat
import time
from collections.abc import Callable
from typing import Final, TypeVar

import h11
import orjson

from common.errors import reason_of
from common.lease.deadline import NEVER, DeadlineWriter, boottime
from daemons.keeperd.renewing.orders import (
    MAX_MESSAGE,
    Duty,
    Gone,
    Late,
    LogMessage,
    Renewed,
    RenewerReady,
    Report,
    ResolvedEndpoint,
    Setup,
    WatchdogState,
    decode,
    encode,
)
from protocol.etcd.credentials import EtcdCredentials, TlsContexts
from protocol.etcd.replyfields import Json, lease_seconds, token

# One blocking request to etcd after another, each with a time limit of its own, over a kept connection.
#
# Source: lease.md 1 and 5.


R = TypeVar("R")
_OK: Final = 200
_CHUNK: Final = 64 * 1024
_MAX_REPLY: Final = 2**20


class NoWholeReply(Exception):
    """There is no whole reply; in words."""


class EtcdMember:
    """One member of etcd; raises `NoWholeReply` for all that is not a reply."""

    def __init__(self, place: ResolvedEndpoint, tls: TlsContexts | None) -> None:
        self.place = place
        self._tls = tls if place.is_tls else None
        self._sock: socket.socket | None = None
        self._http = h11.Connection(h11.CLIENT)
        # token of the user; empty: none yet
        self.token = ""

    def post(self, path: str, body: bytes, limit_s: float) -> tuple[int, bytes]:
        """Return status and body of the reply. Raises: NoWholeReply."""
        until = time.monotonic() + limit_s
        try:
            sock = self._connection(until)
            if self._http.our_state is h11.DONE:
                self._http.start_next_cycle()
            _bound(sock, until)
            sock.sendall(self._request(path, body))
            status, reply = self._reply(sock, until)
        except (OSError, h11.ProtocolError, NoWholeReply) as error:
            self.close()
            if isinstance(error, ssl.SSLError) and self._tls is not None:
                # perhaps a certificate has expired, and another one lies there
                self._tls.refused()
            raise NoWholeReply(_words(error)) from error
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
                    raise NoWholeReply("its reply is too long")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif not isinstance(event, h11.InformationalResponse):
                raise NoWholeReply("it closed the connection")


def authenticate(endpoint: EtcdMember, who: EtcdCredentials, limit_s: float) -> None:
    """Get a token of the user; with the password that is in its file now, if that of before is refused.

    Raises: NoWholeReply.
    """
    until = time.monotonic() + limit_s
    endpoint.token = ""
    status, reply = _log_in(endpoint, who, limit_s)
    if status != _OK and who.has_changed():
        status, reply = _log_in(endpoint, who, until - time.monotonic())
    # else authentication may be switched off: the request itself will tell
    if status == _OK:
        endpoint.token = _read(reply, token)


def _log_in(endpoint: EtcdMember, who: EtcdCredentials, limit_s: float) -> tuple[int, bytes]:
    body = orjson.dumps({"name": who.user, "password": who.password})
    return endpoint.post("/v3/auth/authenticate", body, limit_s)


def ask_for_lease(endpoint: EtcdMember, who: EtcdCredentials | None, lease: int, limit_s: float) -> float:
    """Renew it; return the seconds that it lives, 0 if etcd says that it is gone. Raises: NoWholeReply."""
    until = time.monotonic() + limit_s
    body = orjson.dumps({"ID": str(lease)})
    if who is not None and not endpoint.token:
        authenticate(endpoint, who, limit_s)
    status, reply = endpoint.post("/v3/lease/keepalive", body, until - time.monotonic())
    if status != _OK and who is not None and _is_about_token(status, reply):
        authenticate(endpoint, who, until - time.monotonic())
        status, reply = endpoint.post("/v3/lease/keepalive", body, until - time.monotonic())
    if status != _OK:
        raise NoWholeReply(f"it replied with {status}: {reply[:100]!r}")
    # 200 without a time is a lease that is gone
    return float(_read(reply, lambda found: lease_seconds(found, lease)))


def _is_about_token(status: int, reply: bytes) -> bool:
    return status == 401 or b"invalid auth token" in reply or b"user name is empty" in reply


def _read(reply: bytes, read: Callable[[Json], R]) -> R:
    """Raises: NoWholeReply: the reply is damaged, or not etcd's, so it decides nothing."""
    try:
        return read(orjson.loads(reply))
    except orjson.JSONDecodeError as error:
        raise NoWholeReply(f"it replied with something else: {reply[:100]!r}") from error
    except ValueError as error:
        raise NoWholeReply(f"it replied with something else: {error}") from error


def _bound(sock: socket.socket, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise NoWholeReply("no reply in time")
    sock.settimeout(left)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no reply in time"
    return str(getattr(error, "strerror", None) or error).lower()


# A watchdog of the kernel: it restarts the machine when it is not fed in time.
#
# Theory. It is fed only while the deadline lies beyond its time-out, so it bites at the deadline at the latest. It is
# closed, by the magic letter, only when keeperd has proof that nothing lives that ran under the mastership. A process
# that ends without that leaves it to bite.
#
# Source: lease.md 6.


# of linux/watchdog.h
_SET_TIMEOUT: Final = 0xC0045706
_GET_TIMEOUT: Final = 0x80045707
_FOOD: Final = b"\0"
_MAGIC: Final = b"V"


class Unfit(Exception):
    """The watchdog cannot be used; in words."""


class Watchdog:
    """An open watchdog, fed once. Raises: Unfit.

    A file or a pipe that is not a device stands in for one in tests: what is written there tells what was done.
    """

    def __init__(self, path: str, timeout_s: int) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise Unfit(f"the watchdog '{path}' cannot be opened: {reason_of(error)}") from error
        self.path = path
        self.timeout_s = timeout_s
        if stat.S_ISCHR(os.fstat(self._fd).st_mode) and path != os.devnull:
            self._set_timeout(timeout_s)

    def _set_timeout(self, wanted_s: int) -> None:
        try:
            value = array.array("i", [wanted_s])
            fcntl.ioctl(self._fd, _SET_TIMEOUT, value, True)
            fcntl.ioctl(self._fd, _GET_TIMEOUT, value, True)
        except OSError as error:
            self.close()
            reason = reason_of(error)
            raise Unfit(f"the watchdog '{self.path}' does not take a time-out: {reason}") from error
        if value[0] > wanted_s:
            self.close()
            raise Unfit(
                f"the watchdog '{self.path}' has a time-out of {value[0]} s instead of {wanted_s} s; it would bite "
                "after another node has taken over"
            )
        self.timeout_s = value[0]

    def feed(self) -> None:
        """Raises: OSError."""
        os.write(self._fd, _FOOD)

    def close(self) -> None:
        """Let it watch no more; one that cannot be switched off (nowayout) bites."""
        try:
            os.write(self._fd, _MAGIC)
        except OSError:
            pass
        finally:
            os.close(self._fd)


def check_watchdog(path: str, timeout_s: int) -> str:
    """Return why this watchdog cannot be used; empty: it can. It is opened for a moment."""
    try:
        Watchdog(path, timeout_s).close()
    except Unfit as error:
        return str(error)
    return ""


# interval of the watchdog's food
_FEED_S: Final = 0.5
# pause after all endpoints were silent
_PAUSE_S: Final = 0.1


class KeeperGone(Exception):
    """keeperd has gone."""


class Duties:
    """Raises: InvalidRequest: a file with a password or a certificate cannot be read."""

    def __init__(self, line: socket.socket, setup: Setup) -> None:
        self._line = line
        # None: etcd asks for no user
        self._who = EtcdCredentials(setup) if setup.user else None
        tls = TlsContexts(setup) if any(place.is_tls for place in setup.places) else None
        self._endpoints = [EtcdMember(place, tls) for place in setup.places]
        self._writer = DeadlineWriter.attach(setup.deadline_file)
        self._duty = Duty()
        self._heard_at = boottime()
        # the deadline as written; NEVER: there is no mastership
        self._until: float = NEVER
        # by BOOTTIME; inf: not due
        self._next_at = math.inf
        self._feed_at = math.inf
        # whether keeperd is silent
        self._is_deserted = False
        self._dog: Watchdog | None = None
        # why there is none although one is wanted, as told
        self._unfit = ""

    def run(self) -> None:
        """Until keeperd goes; raises KeeperGone."""
        self._report(RenewerReady())
        while True:
            self._hear(self._wait_s())
            self._feed()
            if boottime() >= self._next_at:
                self._renew()

    def _wait_s(self) -> float | None:
        due = min(self._next_at, self._feed_at)
        return None if due == math.inf else max(0.0, due - boottime())

    def _hear(self, limit_s: float | None) -> None:
        """Take in what keeperd wants; wait for the first message at most so long."""
        timeout_ms = None if limit_s is None else math.ceil(limit_s * 1000)
        poller = select.poll()
        poller.register(self._line, select.POLLIN)
        while poller.poll(timeout_ms):
            data = self._line.recv(MAX_MESSAGE)
            if not data:
                raise KeeperGone
            order = decode(data)
            if isinstance(order, Duty):
                self._take(order)
            timeout_ms = 0

    def _take(self, duty: Duty) -> None:
        before, self._duty = self._duty, duty
        self._heard_at = boottime()
        self._set_until(before, duty)
        if not duty.lease:
            self._next_at = math.inf
        elif duty.lease != before.lease or duty.epoch != before.epoch or (duty.until and not before.until):
            # its deadline may come a message after the lease
            self._next_at = max(boottime(), duty.sent_at + duty.keepalive_s)
        self._watch()

    def _set_until(self, before: Duty, duty: Duty) -> None:
        if duty.epoch == before.epoch and duty.until and duty.until <= self._until:
            # what was renewed meanwhile counts
            return
        if duty.epoch == before.epoch and before.until and self._until <= boottime() and duty.until:
            # it has passed: nothing of this mastership brings it back
            return
        if duty.until != self._until:
            self._write(duty.until)

    def _write(self, until: float) -> None:
        self._until = until
        self._writer.set(until)

    # renewing

    def _renew(self) -> None:
        duty = self._duty
        if boottime() >= self._until:
            self._next_at = math.inf
            self._report(Late(duty.epoch))
            return
        if boottime() - self._heard_at > duty.patience_s:
            # nothing is renewed for a keeperd that hangs; its next word is waited for
            self._next_at = boottime() + _PAUSE_S
            if not self._is_deserted:
                self._is_deserted = True
                self._report(LogMessage("lease.not_renewed", "the main process is silent"))
            return
        self._is_deserted = False
        for _ in self._endpoints:
            if self._try_once(duty) or self._duty.epoch != duty.epoch or not self._duty.lease:
                return
        self._next_at = boottime() + _PAUSE_S

    def _try_once(self, duty: Duty) -> bool:
        """Ask the endpoint that replied last; return whether the outcome is known. The next one is asked otherwise."""
        endpoint = self._endpoints[0]
        sent_at = boottime()
        try:
            lives_s = ask_for_lease(endpoint, self._who, duty.lease, duty.request_s)
        except NoWholeReply as silent:
            self._endpoints.append(self._endpoints.pop(0))
            self._report(LogMessage("keepalive.failed", f"{endpoint.place.label}: {silent}"))
            self._hear(0)
            self._feed()
            return False
        # what keeperd wants may have changed while this was asked
        self._hear(0)
        if self._duty.epoch == duty.epoch and self._duty.lease == duty.lease:
            self._renewed(duty, sent_at) if lives_s > 0 else self._gone(duty)
        return True

    def _renewed(self, duty: Duty, sent_at: float) -> None:
        if boottime() >= self._until:
            self._next_at = math.inf
            self._report(Late(duty.epoch))
            return
        self._write(max(self._until, sent_at + duty.deadline_s))
        self._next_at = sent_at + duty.keepalive_s
        self._feed()
        self._report(Renewed(duty.epoch, sent_at))

    def _gone(self, duty: Duty) -> None:
        self._next_at = math.inf
        self._report(Gone(duty.epoch, "etcd does not know the lease any more"))

    # the watchdog

    def _watch(self) -> None:
        """Open or close the watchdog, as it is wanted."""
        if self._dog is not None and not self._duty.watchdog:
            self._dog.close()
            self._dog = None
            self._feed_at = math.inf
            self._report(WatchdogState("", is_open=False))
        elif self._dog is None and self._duty.watchdog:
            try:
                self._dog = Watchdog(self._duty.watchdog, self._duty.watchdog_s)
            except Unfit as error:
                if self._unfit != str(error):
                    self._unfit = str(error)
                    self._report(WatchdogState(self._unfit, is_open=False))
                return
            self._unfit = ""
            self._feed_at = boottime()
            self._report(WatchdogState("", is_open=True))

    def _feed(self) -> None:
        now = boottime()
        if self._dog is None or now < self._feed_at:
            return
        self._feed_at = now + _FEED_S
        # it bites at the deadline at the latest
        if now + self._dog.timeout_s <= self._until and not self._duty.is_starving:
            try:
                self._dog.feed()
            except OSError as error:
                self._report(LogMessage("watchdog.not_fed", os.strerror(error.errno or 0).lower()))

    def _report(self, report: Report) -> None:
        # a main process that reads nothing will miss some: the deadline passes, and that it sees by itself
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._line.send(encode(report), socket.MSG_DONTWAIT)
