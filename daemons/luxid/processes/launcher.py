"""Request job processes from the fork server, over one connection that is kept open.

The connection tells that the fork server is there; if it is away, starts wait and nothing fails. All else is said by
the process itself.

Source: protocol/forkserver.py; DESIGN section 7.
"""

import array
import contextlib
import errno
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs
import orjson
import trio

from common.errors import (
    ConnectionLost,
    Denied,
    GantryError,
    InvalidRequest,
    ProtocolError,
    RemoteError,
    Unavailable,
)
from common.ids import JobId
from common.jsontext import ascii_json
from common.paths import Paths
from common.system.daemon import take_back_limit
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.shortages import is_passing
from protocol.envelope import read_reply, request_bytes
from protocol.forkserver import (
    GO_AHEAD,
    REFUSAL,
    VERSION,
    WANT_SECRETS,
    WANT_SECRETS_AND_PAUSES,
    Secrets,
    StartJob,
    Version,
)
from protocol.framing import Framer, pack
from protocol.messages import positional, structure_reply
from protocol.unixsocket import dial, pauses

CHUNK: Final = 64 * 2**10
# seconds for the answer to the first question
_VERSION_S: Final = 10.0
_log: Final = get_log(__name__)


@attrs.frozen
class StartedProcess:
    """A process that waits for its go-ahead at the other end of `stream`; the receiver closes it."""

    # None: its livelock tells
    pid: int | None
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
    # a process of this job was reaped; only of an external executor
    exited: Callable[[JobId], None]


class ProcessLauncher(Protocol):
    """Makes job processes: the fork server's client, or an external executor."""

    @property
    def rules(self) -> StartRules: ...

    async def start(self, job_id: JobId) -> StartedProcess:
        """Raises: Unavailable: the launcher is away, no process is started."""
        ...

    async def abandon(self, started: StartedProcess) -> None:
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

    async def start(self, job_id: JobId) -> StartedProcess:
        """Request a process for this job.

        Raises: Unavailable: the fork server is away or does not read, or no descriptors are left.
        """
        if self._sock is None:
            raise Unavailable("the fork server is away")
        ours, theirs = _socket_pair()
        try:
            with theirs:
                self._send(self._sock, StartJob(job_id), theirs.fileno())
        except BaseException:
            ours.close()
            raise
        # a SocketStream would try to set TCP options, at a cost
        return StartedProcess(None, trio.lowlevel.FdStream(ours.detach()))

    async def abandon(self, started: StartedProcess) -> None:
        """Nothing to do: a child that finds its socket closed ends."""

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the connection open; started after the first attempt."""
        retries = pauses()
        told: str | None = None
        while True:
            try:
                await self._serve(dial(self._path, "the fork server"), events, task_status)
                retries, told = pauses(), None
            except (Unavailable, Denied) as error:
                if error.message != told:
                    _log.warning("forkserver.away", reason=error, effect="jobs wait until it is back")
                told = error.message
                task_status.started()
                await trio.sleep(next(retries))
            task_status = trio.TASK_STATUS_IGNORED

    async def _serve(self, sock: socket.socket, events: LauncherEvents, task_status: trio.TaskStatus[None]) -> None:
        """Serve starts over a new connection until it is lost.

        Raises: Unavailable: it cannot be used.
        """
        with sock:
            await self._check_version(sock)
            _log.info("forkserver.connected", path=self._path)
            self._sock = sock
            events.connected()
            task_status.started()
            reason = "it has closed the connection"
            try:
                # it says nothing more; what comes is its end
                await _receive(sock)
            except OSError as error:
                reason = str(error)
            finally:
                self._sock = None
                trio.lowlevel.notify_closing(sock)
                events.lost()
        _log.warning("forkserver.lost", reason=reason, effect="jobs wait until it is back")

    async def _check_version(self, sock: socket.socket) -> None:
        """Raises: Unavailable: the fork server does not answer, or runs other code than this."""
        framer, replies = Framer(), list[bytes]()
        try:
            with trio.fail_after(_VERSION_S):
                sock.send(pack(request_bytes(Version.METHOD, ())))
                while not replies:
                    if not (received := await _receive(sock)):
                        raise Unavailable("it closed the connection")
                    replies = framer.feed(received)
            version = structure_reply(Version, read_reply(replies[0]))
        except trio.TooSlowError:
            raise Unavailable(f"it did not answer within {_VERSION_S:g} s") from None
        except OSError as error:
            raise Unavailable((error.strerror or str(error)).lower()) from error
        except (RemoteError, ProtocolError, InvalidRequest):
            version = 1
        if version != VERSION:
            raise Unavailable(f"it runs other code (version {version} of its messages, not {VERSION}); send it SIGHUP")

    def _send(self, sock: socket.socket, request: StartJob, fd: int) -> None:
        """Send a notification; the descriptor goes with its first byte.

        Raises: Unavailable: the connection is lost, or full, as the fork server does not read.
        """
        message = pack(ascii_json({"jsonrpc": "2.0", "method": request.METHOD, "params": positional(request)}))
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        try:
            if sock.sendmsg([message], ancillary) == len(message):
                return
        except BlockingIOError:
            raise Unavailable("the fork server does not read what it is sent") from None
        except OSError as error:
            raise ConnectionLost("the fork server went away") from error
        # the rest would be taken for the begin of the next message
        sock.shutdown(socket.SHUT_RDWR)
        raise ConnectionLost("the fork server does not read what it is sent")


async def _receive(sock: socket.socket) -> bytes:
    """Returns: what came; nothing: the peer has closed. Raises: OSError."""
    while True:
        await trio.lowlevel.wait_readable(sock)
        with contextlib.suppress(BlockingIOError):
            return sock.recv(CHUNK)


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Raises: Unavailable: no descriptors are left."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"no socket for a job's process: {(error.strerror or str(error)).lower()}") from error


# The handshake with a newly made process, from luxid's side.
#
# Until the go-ahead the process only holds its livelock. So if luxid or the process ends before that, the job is still
# queued, and the process ends when it finds its socket closed. The job is started again, once.
#
# Source: protocol/forkserver.py; luxid.md 9.1.


_LIMIT: Final = 64 * 2**10
_CHUNK: Final = 4096


class StartFailed(GantryError):
    """the job's process ended before it was told to start"""


class NoAnswer(StartFailed):
    """the job's process did not answer in time; it may only be slow"""


class Handshake:
    """The messages of one start, in order: `livelock`, then `give_go_ahead`.

    Args:
        timeout_s: of each message.
    """

    def __init__(self, stream: trio.abc.Stream, timeout_s: float) -> None:
        self._stream = stream
        self._timeout_s = timeout_s
        self._framer = Framer(_LIMIT)
        self._messages: list[bytes] = []

    async def livelock(self) -> str:
        """Receive the absolute path of the livelock that the process holds.

        Raises:
            StartFailed: the process ended, or sent something else.
            NoAnswer: it sent nothing in time.
            Unavailable: it cannot start at the moment, with the reason.
        """
        message = await self._receive()
        if message.startswith(REFUSAL):
            raise Unavailable(f"the job's process cannot start: {message[len(REFUSAL) :].decode('utf-8', 'replace')}")
        path = message.decode("utf-8", "replace")
        if not os.path.isabs(path) or "\0" in path or "\ufffd" in path:
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of its livelock's path")
        return path

    async def give_go_ahead(self, secrets: Secrets, *, asks: bool) -> bool:
        """Tell the process to start, and send it its secrets.

        Args:
            secrets: for each opcode its secret parameters, or None.
            asks: whether the process requests them after the go-ahead.
        Returns: whether the process supports requests to pause.
        Raises: StartFailed: it is gone, or sent something else.
        """
        if not asks:
            await self._send(GO_AHEAD, orjson.dumps(secrets))
            return True
        await self._send(GO_AHEAD)
        message = await self._receive()
        if message not in (WANT_SECRETS, WANT_SECRETS_AND_PAUSES):
            raise StartFailed(f"the job's process sent {message[:80]!r} instead of asking for its secrets")
        await self._send(orjson.dumps(secrets))
        return message == WANT_SECRETS_AND_PAUSES

    async def _send(self, *messages: bytes) -> None:
        try:
            with trio.fail_after(self._timeout_s):
                await self._stream.send_all(b"".join(map(pack, messages)))
        except trio.TooSlowError:
            raise self._no_answer() from None
        except (trio.BrokenResourceError, OSError) as error:
            raise StartFailed from error

    async def _receive(self) -> bytes:
        try:
            with trio.fail_after(self._timeout_s):
                while not self._messages:
                    received = await self._stream.receive_some(_CHUNK)
                    if not received:
                        raise StartFailed
                    self._messages += self._framer.feed(bytes(received))
        except trio.TooSlowError:
            raise self._no_answer() from None
        except (trio.BrokenResourceError, OSError) as error:
            raise StartFailed from error
        return self._messages.pop(0)

    def _no_answer(self) -> NoAnswer:
        return NoAnswer(f"no answer from the job's process within {self._timeout_s:g} s")


# Start an external executor for each job, such as Ganeti's: the alternative to the fork server's client.
#
# Theory. The program gets the job's id as its last argument and talks over its standard input and
# output. It runs in a session of its own, so that the end of luxid does not end the job. luxid is its
# parent and reaps it; after luxid's end its adopter does.
#
# The known pid need not be the job's: the program may be a wrapper. A signal to a job waits until its
# process has written its own pid into the job file, which it does when it is ready for signals.
#
# Source: luxid.md 5.9, 9.1; DESIGN section 7.


# seconds between the signals to a process that does not react
_PATIENCE_S: Final = 0.1
_ENDINGS: Final = (signal.SIGTERM, signal.SIGABRT, signal.SIGKILL)
# variable that the executor reads as a number
_DEBUG: Final = "GNT_DEBUG"
# a program that is being written
_BUSY: Final = errno.ETXTBSY


class ExternalExecutor:
    """The launcher that runs a program for each job.

    Args:
        argv: program and arguments.
    """

    def __init__(self, argv: Sequence[str], paths: Paths) -> None:
        self._argv = tuple(argv)
        self._livelocks = paths.livelocks
        self._rules = StartRules(attempts=1, asks_secrets=True)
        # nursery for reaping, and the receiver of events; None: not ready
        self._reaping: tuple[trio.Nursery, LauncherEvents] | None = None
        self._processes: dict[int, trio.Process] = {}

    @property
    def rules(self) -> StartRules:
        return self._rules

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold luxid's own livelock, which stands in a job file until the process has one, and reap processes.

        Cancellation: the processes live on.
        """
        livelock = Livelock.create(self._livelocks, "luxi-daemon")
        self._rules = StartRules(attempts=1, own_livelock=livelock.path, asks_secrets=True)
        try:
            async with trio.open_nursery() as nursery:
                self._reaping = (nursery, events)
                events.connected()
                task_status.started()
                await trio.sleep_forever()
        finally:
            livelock.remove()

    async def start(self, job_id: JobId) -> StartedProcess:
        """Run the program for this job.

        Raises:
            StartFailed: it cannot be run.
            Unavailable: no program can be run at the moment, for lack of processes, memory or descriptors.
        Cancellation: if a process was made nevertheless, it finds its standard input closed, and ends.
        """
        if self._reaping is None:
            raise Unavailable("the executor is not ready")
        try:
            process = await trio.lowlevel.open_process(
                [*self._argv, str(job_id)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, _DEBUG: str(int(logging.getLogger().isEnabledFor(logging.DEBUG)))},
                start_new_session=True,
            )
        except OSError as error:
            kind = Unavailable if is_passing(error) or error.errno == _BUSY else StartFailed
            raise kind(f"'{self._argv[0]}' cannot be run: {(error.strerror or str(error)).lower()}") from error
        # before the go-ahead it does not use descriptors
        take_back_limit(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        self._processes[process.pid] = process
        nursery, events = self._reaping
        nursery.start_soon(self._reap, job_id, process, events)
        return StartedProcess(process.pid, trio.StapledStream(process.stdin, process.stdout))

    async def abandon(self, started: StartedProcess) -> None:
        """End a process whose start failed, and all that it runs."""
        process = self._processes.get(started.pid or 0)
        with trio.CancelScope(shield=True):
            for number in _ENDINGS:
                if process is None or process.poll() is not None:
                    return
                # not reaped, so the pid still belongs to it
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with trio.move_on_after(_PATIENCE_S):
                    await process.wait()

    async def _reap(self, job_id: JobId, process: trio.Process, events: LauncherEvents) -> None:
        code = await process.wait()
        del self._processes[process.pid]
        _log.debug("job.process_ended", job=job_id, pid=process.pid, exit_code=code)
        events.exited(job_id)
