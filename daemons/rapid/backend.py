"""The daemons behind rapid: connections that are used again, one for each call under way.

Theory. A daemon may be restarted at any time. What it has not received is sent again, until it is back or the patience
is over. What it may have received is sent again if that changes nothing more: all calls but a submission without a key.

Source: DESIGN section 4 and 15; rapi.md 4.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio
from starlette.types import Receive

from common.access import Role
from common.errors import ConnectionLost, Denied, RemoteError, TooBusy, Unavailable
from common.paths import Paths
from common.system.log import get_log
from common.webaccess.rights import Principal
from daemons.rapid.refusals import RequestRefused, Silent
from protocol.client import Client
from protocol.envelope import read_reply
from protocol.http.body import HungUp, until_gone
from protocol.luxi.feed import Subscribe
from protocol.luxi.jobs import SubmitJob, SubmitJobToDrainedQueue, SubmitManyJobs
from protocol.messages import AnyRequest, Request
from protocol.peer import Speaker
from protocol.unixsocket import pauses

R = TypeVar("R")
T = TypeVar("T")
Noted = Callable[[str], None]
# connections that are kept open for later calls
_IDLE: Final = 32
_log: Final = get_log(__name__)


class ConnectionPool:
    """Connections to one daemon.

    Args:
        patience_s: time from a failure for which a call is tried again.
        most: calls at a time, so that the daemon has room for others.
    """

    def __init__(self, path: Path, daemon: str, patience_s: float, most: int) -> None:
        self._most = most
        self._path = path
        self._daemon = daemon
        self._patience_s = patience_s
        self._idle: list[Client] = []
        # calls under way
        self.busy = 0

    @property
    def idle(self) -> int:
        """Number of clients kept for later calls."""
        return len(self._idle)

    async def call(
        self,
        request: Request[R],
        speaker: Speaker | None = None,
        receive: Receive | None = None,
        noted: Noted | None = None,
    ) -> R:
        """Call the daemon; wait for it while it is restarted.

        Args:
            speaker: in whose name; None: that of rapid itself.
            receive: that of the request, whose client may go meanwhile; None: somebody else looks for that.
            noted: called with each note for people in the reply.
        Raises:
            HungUp: the client has gone, and the daemon has not acted.
            RemoteError: it has refused.
            TooBusy: too many calls are under way.
            Silent: it does not come back in time, or keeps this user out.
            RequestRefused: it went away; whether it has acted is not known.
        Cancellation: the connection is closed; the daemon still carries out the call.
        """
        return await self._patiently(request, receive, lambda: self.call_once(request, speaker, noted))

    async def exchange(self, request: AnyRequest, speaker: Speaker, receive: Receive | None) -> bytes:
        """As `call`, but return the daemon's reply as it came, whether it is a result or an error."""
        once = partial(self._once, lambda client: client.exchange(request, speaker))
        return await self._patiently(request, receive, once)

    async def _patiently(self, request: AnyRequest, receive: Receive | None, once: Callable[[], Awaitable[T]]) -> T:
        pauses_s, deadline = pauses(), float("inf")
        while True:
            began = trio.current_time()
            try:
                return await once()
            except (RemoteError, TooBusy, RequestRefused):
                raise
            except (Unavailable, Denied) as error:
                if isinstance(error, ConnectionLost):
                    self._check_repeatable(request)
                if trio.current_time() - began > self._patience_s or deadline == float("inf"):
                    # it had been there
                    pauses_s, deadline = pauses(), trio.current_time() + self._patience_s
                pause_s = next(pauses_s)
                if isinstance(error, Denied) or trio.current_time() + pause_s > deadline:
                    _log.warning("call.failed", method=request.METHOD, daemon=self._daemon, reason=error.message)
                    raise Silent(f"{self._daemon} cannot be reached now; try again") from error
                await _pause(pause_s, receive)

    async def call_once(self, request: Request[R], speaker: Speaker | None = None, noted: Noted | None = None) -> R:
        """Raises: TooBusy: too many calls are under way. Else and Cancellation: as `Client.call`."""
        return await self._once(lambda client: client.call(request, speaker, noted))

    async def _once(self, use: Callable[[Client], Awaitable[T]]) -> T:
        """Raises: TooBusy: too many calls are under way. Else as `use`, which gets a client for itself."""
        if self.busy >= self._most:
            raise TooBusy(f"{self._most} calls to {self._daemon} are under way, which is the limit; try again")
        client = self._idle.pop() if self._idle else Client(self._path, daemon=self._daemon)
        self.busy += 1
        try:
            return await use(client)
        finally:
            self.busy -= 1
            # after a failure it has closed its connection, and opens another one
            if len(self._idle) < _IDLE:
                self._idle.append(client)
            else:
                client.close()

    async def open_feed(self, request: Subscribe, speaker: Speaker) -> tuple[Client, bytes]:
        """Subscribe on a connection of its own, which the caller closes; return its beginning as it came.

        Raises, Cancellation: as `Client.subscribe`.
        """
        client = Client(self._path, daemon=self._daemon)
        try:
            reply = await client.exchange(request, speaker)
            read_reply(reply)
        except BaseException:
            client.close()
            raise
        return client, reply

    def close(self) -> None:
        """Close the connections that no call uses."""
        while self._idle:
            self._idle.pop().close()

    def _check_repeatable(self, request: AnyRequest) -> None:
        """Raises: RequestRefused: the request cannot be sent twice."""
        is_keyless = isinstance(request, SubmitJob | SubmitManyJobs) and request.key is None
        if is_keyless or isinstance(request, SubmitJobToDrainedQueue):
            _log.warning("call.unknown", method=request.METHOD, daemon=self._daemon)
            raise RequestRefused(
                502,
                f"{self._daemon} went away before it replied, so it is not known whether it has taken the jobs; look "
                "for them before you submit again; a key of the submission would have made that safe",
                code="unavailable",
            )


async def _pause(seconds: float, receive: Receive | None) -> None:
    """Raises: HungUp: nobody waits any more."""
    if receive is None:
        await trio.sleep(seconds)
        return
    with trio.move_on_after(seconds):
        await until_gone(receive)
        raise HungUp


class Backend:
    """luxid, wconfd, and keeperd of this node."""

    def __init__(self, paths: Paths, patience_s: float, most: int) -> None:
        self.luxid: Final = ConnectionPool(paths.query_socket, "luxid", patience_s, most)
        self.wconfd: Final = ConnectionPool(paths.wconfd_socket, "wconfd", patience_s, most)
        self.keeperd: Final = ConnectionPool(paths.keeperd_socket, "keeperd", patience_s, most)

    def close(self) -> None:
        """Close the connections that no call uses."""
        self.luxid.close()
        self.wconfd.close()
        self.keeperd.close()


class CallersDaemons:
    """The daemons, called in the name of one caller with one role. Args: receive: as for `ConnectionPool.call`."""

    def __init__(self, backend: Backend, caller: Principal, role: Role, receive: Receive | None) -> None:
        self._backend = backend
        self._receive = receive
        self._speaker = Speaker(caller.name, role, caller.unix_user)
        self.notes: list[str] = []

    async def luxid(self, request: Request[R]) -> R:
        return await self._backend.luxid.call(request, self._speaker, self._receive, self.notes.append)

    async def wconfd(self, request: Request[R]) -> R:
        return await self._backend.wconfd.call(request, receive=self._receive)

    async def feed(self, request: Subscribe) -> tuple[Client, bytes]:
        return await self._backend.luxid.open_feed(request, self._speaker)

    async def luxi(self, request: AnyRequest) -> bytes:
        return await self._backend.luxid.exchange(request, self._speaker, self._receive)
