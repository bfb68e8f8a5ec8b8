"""Request job processes from the fork server, over one connection that is kept open.

The connection itself tells two things: that the fork server is there (if it is away, starts wait and
nothing fails), and which of its children have ended.

Source: protocol/forkserver.py; DESIGN section 7.
"""

import array
import socket
from collections.abc import Callable
from typing import Final, Protocol

import attrs
import trio

from common.errors import ConnectionLost, Denied, GantryError, Unavailable
from common.ids import JobId
from common.paths import Paths
from common.system.log import get_log
from protocol.calling import read_reply, request_bytes
from protocol.dial import dial, pauses
from protocol.envelope import Call, read_message
from protocol.forkserver import JobExited, StartJob
from protocol.framing import Framer, pack
from protocol.messages import positional, structure_reply, structure_request

CHUNK: Final = 64 * 2**10
_log: Final = get_log(__name__)


@attrs.frozen
class Started:
    """A process that waits for its go-ahead at the other end of `stream`; the receiver closes it."""

    pid: int
    stream: trio.abc.Stream


@attrs.frozen
class StartRules:
    """The rules for starts with a launcher."""

    # number of consecutive failures after which a job is ended
    attempts: int
    # luxid's own livelock, to be written into the job file before a process is requested; then the process writes its
    # pid itself. None: nothing is written until path and pid are known
    own_livelock: str | None = None
    # whether a process requests its secrets, as protocol/forkserver.py says
    asks_secrets: bool = False
    # whether a process that does not reply in time counts as slow: then the start is not an attempt, and the job waits
    may_be_slow: bool = False


@attrs.frozen
class LauncherEvents:
    """The callbacks for events; called in the event loop, must not raise."""

    connected: Callable[[], None]
    lost: Callable[[], None]
    exited: Callable[[JobExited], None]


class Launcher(Protocol):
    """Makes job processes: the fork server's client, or an external executor."""

    @property
    def rules(self) -> StartRules: ...

    async def start(self, job_id: JobId) -> Started:
        """Raises: Unavailable: the launcher is away, no process is started. RemoteError: it refuses."""
        ...

    async def abandon(self, started: Started) -> None:
        """End a process whose start failed; its stream is closed already. Never raises."""
        ...

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve starts, and report the events as they come, until cancelled."""
        ...


class ForkServerClient:
    """The launcher that uses the fork server."""

    # number of consecutive failed starts, after which the job is ended
    ATTEMPTS: Final = 3

    def __init__(self, paths: Paths) -> None:
        self.rules = StartRules(self.ATTEMPTS, may_be_slow=True)
        self._path = paths.forkserver_socket
        self._sock: socket.socket | None = None
        # one call at a time: the fork server also does one thing after the other
        self._turn = trio.Lock()
        self._replies: trio.MemorySendChannel[bytes] | None = None

    async def start(self, job_id: JobId) -> Started:
        """Request a process for this job.

        Raises:
            Unavailable: the fork server is away, or no descriptors are left. If a child was made nevertheless, it
                finds its socket closed and ends without having done anything.
            RemoteError: it refuses, e.g. the system has no room for another process.
        Cancellation: as above; the connection is made again, because the reply would be taken for the next one's.
        """
        ours, theirs = _socket_pair()
        try:
            with theirs:
                async with self._turn:
                    pid = await self._call(StartJob(job_id), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        # a SocketStream would try to set TCP options, at a cost
        return Started(pid, trio.lowlevel.FdStream(ours.detach()))

    async def abandon(self, started: Started) -> None:
        """Nothing to do: a child that finds its socket closed ends."""

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the connection open; started after the first attempt."""
        retries = pauses()
        is_reported = False
        while True:
            try:
                self._sock = dial(self._path, "the fork server")
            except (Unavailable, Denied) as error:
                if not is_reported:
                    _log.warning("forkserver.away", reason=error, effect="jobs wait until it is back")
                is_reported = True
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                await trio.sleep(next(retries))
                continue
            retries, is_reported = pauses(), False
            _log.info("forkserver.connected", path=self._path)
            await self._serve(self._sock, events, task_status)
            task_status = trio.TASK_STATUS_IGNORED

    async def _serve(self, sock: socket.socket, events: LauncherEvents, task_status: trio.TaskStatus[None]) -> None:
        self._replies, replies = trio.open_memory_channel[bytes](8)
        self._incoming = replies
        events.connected()
        task_status.started()
        try:
            await self._receive(sock, self._replies, events)
        except (OSError, GantryError, trio.ClosedResourceError) as error:
            _log.warning("forkserver.lost", reason=error, effect="jobs wait until it is back")
        finally:
            self._drop(sock)
            events.lost()

    async def _receive(
        self, sock: socket.socket, replies: trio.MemorySendChannel[bytes], events: LauncherEvents
    ) -> None:
        framer = Framer()
        while True:
            await trio.lowlevel.wait_readable(sock)
            try:
                received = sock.recv(CHUNK)
            except BlockingIOError:
                continue
            if not received:
                raise ConnectionLost("the fork server closed the connection")
            for payload in framer.feed(received):
                if not _take_notification(payload, events):
                    await replies.send(payload)

    async def _call(self, request: StartJob, fd: int) -> int:
        sock = self._sock
        if sock is None:
            raise Unavailable("the fork server is away")
        try:
            await _send_with_fd(sock, pack(request_bytes(request.METHOD, positional(request))), fd)
            reply = await self._incoming.receive()
        except (OSError, trio.ClosedResourceError, trio.EndOfChannel) as error:
            self._drop(sock)
            raise ConnectionLost("the fork server went away") from error
        except BaseException:
            self._drop(sock)
            raise
        return structure_reply(StartJob, read_reply(reply))

    def _drop(self, sock: socket.socket) -> None:
        """Close this connection, unless that was done; `run` makes a new one, and may have done so already."""
        if self._sock is not sock:
            return
        trio.lowlevel.notify_closing(sock)
        sock.close()
        self._sock = None
        if self._replies is not None:
            self._replies.close()
            self._replies = None


def _take_notification(payload: bytes, events: LauncherEvents) -> bool:
    """Return whether this was a notification; replies have no key `method`."""
    if b'"method"' not in payload:
        return False
    message = read_message(payload)
    if isinstance(message, Call) and message.method == JobExited.METHOD:
        exited = structure_request(JobExited, message.params)
        assert isinstance(exited, JobExited)
        events.exited(exited)
    return True


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Raises: Unavailable: no descriptors are left."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"no socket for a job's process: {(error.strerror or str(error)).lower()}") from error


async def _send_with_fd(sock: socket.socket, message: bytes, fd: int) -> None:
    """Send a message; the descriptor goes with its first byte.

    Raises: OSError.
    """
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
    sent = 0
    while sent < len(message):
        try:
            sent += sock.sendmsg([message[sent:]], ancillary if sent == 0 else [])
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
