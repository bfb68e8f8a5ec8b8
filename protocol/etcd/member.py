"""One member of etcd: its connections, its release, and the token that it has given.

Theory. Each request that is under way has a connection to itself; connections are kept for the next. The gateway keeps
them open. A connection whose request was given up is closed, since its reply may still come.

Source: lease.md 1.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import orjson
import trio

from protocol.etcd.address import Endpoint
from protocol.etcd.errors import UnsafeRelease
from protocol.etcd.httpconnection import OK, Connection, HttpReply, closing_unless_done
from protocol.etcd.tlscontexts import TlsContexts
from protocol.etcd.wire import Broken, TlsBroken, connect

# a crash under load makes them lose entries that others have
BROKEN_RELEASES: Final = frozenset({"3.5.0", "3.5.1", "3.5.2"})
_NO_HEADERS: Final[Mapping[str, str]] = {}
_MAX_KEPT: Final = 16


class Member:
    """A member; any number of tasks may ask it at a time.

    Args:
        tls: None: plain.
        takes_all_releases: whether a release is used that may lose data when it crashes.
    """

    def __init__(self, endpoint: Endpoint, tls: TlsContexts | None, *, takes_all_releases: bool = False) -> None:
        self.endpoint = endpoint
        # as it said when it was connected to last; empty: never yet
        self.release = ""
        # proves the user to this member; empty: there is none yet, or it asks for none
        self.token = ""
        # held while a token is fetched, which costs the member much
        self.login_lock = trio.Lock()
        self._tls = tls
        self._takes_all_releases = takes_all_releases
        # the one that was used last comes last
        self._idle: list[Connection] = []

    async def ask(self, path: str, body: bytes, *, with_token: bool = True) -> HttpReply:
        """POST a request.

        Args: with_token: not for fetching a token: a token that does not count any more is refused there, too.
        Raises:
            Broken: there is no whole reply; the member may have carried the request out.
            UnsafeRelease: nothing was sent.
        Cancellation: it may have been carried out.
        """
        return await self._exchange("POST", path, body, self._headers() if with_token else _NO_HEADERS)

    async def fetch(self, path: str) -> HttpReply:
        """GET a page. Raises: as `ask`."""
        return await self._exchange("GET", path, b"", _NO_HEADERS)

    async def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpReply:
        with self._noticing_certificates():
            connection = await self._connection()
            with closing_unless_done(connection):
                await connection.send(method, path, body, headers)
                reply = await connection.reply()
        self._keep(connection)
        return reply

    async def open_stream(self, path: str, body: bytes, headers: Mapping[str, str]) -> Connection | HttpReply:
        """POST a request whose reply never ends.

        Returns: the connection, on which the reply's lines come, and which the caller closes; or why there is none.

        Raises: as `ask`.
        """
        with self._noticing_certificates():
            connection = await self._connect()
            with closing_unless_done(connection):
                await connection.send("POST", path, body, {**self._headers(), **headers})
                status = await connection.head()
                if status == OK:
                    return connection
                reply = HttpReply(status, await connection.body())
        connection.close()
        return reply

    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": self.token} if self.token else _NO_HEADERS

    async def _connection(self) -> Connection:
        while self._idle:
            kept = self._idle.pop()
            if kept.may_be_kept:
                return kept
            kept.close()
        return await self._connect()

    async def _connect(self) -> Connection:
        context = self._tls.current if self._tls else None
        connection = Connection(await connect(self.endpoint, context), self.endpoint.place)
        with closing_unless_done(connection):
            # a member is upgraded by a restart, so each connection may lead to another release
            await connection.send("GET", "/version", b"", _NO_HEADERS)
            self.release = release_of((await connection.reply()).body)
            if self.release in BROKEN_RELEASES and not self._takes_all_releases:
                raise UnsafeRelease(
                    f"the member of etcd at {self.endpoint} runs the release {self.release}, which may lose data when "
                    "it crashes; upgrade it (3.4.23 and all from 3.5.3 on are good), or set 'allow_broken_releases' of "
                    "'[etcd]'"
                )
        return connection

    def _keep(self, connection: Connection) -> None:
        if connection.is_done and len(self._idle) < _MAX_KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    @contextmanager
    def _noticing_certificates(self) -> Iterator[None]:
        try:
            yield
        except TlsBroken:
            if self._tls:
                self._tls.refused()
            raise

    def close(self) -> None:
        """Close the kept connections; requests under way go on."""
        while self._idle:
            self._idle.pop().close()


def release_of(body: bytes) -> str:
    """Raises: Broken: it is no reply of etcd's."""
    try:
        release = orjson.loads(body)["etcdserver"]
    except (ValueError, TypeError, KeyError):
        release = None
    if not isinstance(release, str):
        raise Broken(f"it is no member of etcd: it replied {body[:100]!r}")
    return release
