"""The loop of the fork server: control connections, forks, ends of children.

A child is forked when its job starts. Children forked in advance were measured and rejected: 1 ms less latency, and
some 8 % fewer jobs a second.

Source: DESIGN section 7; protocol.forkserver.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, assert_never

import attrs
import setproctitle

from common.access import Role
from common.commands.cgroups import GroupTree
from common.errors import Conflict, GantryError, InvalidRequest, Unavailable
from common.ids import JobId
from common.jsontext import ascii_json
from common.settings import Settings
from common.system.daemon import SIGN, sign_interval_s, tell_stacks_at_the_end
from common.system.log import get_log, rename_program, reopen_log
from common.system.program import notify
from common.system.signals import HANDLED, ProcessSignals
from daemons.jobproc import life
from daemons.jobproc.life import refuse
from protocol.envelope import Call, CallBatch, MalformedRequest, failure, read_message, success
from protocol.forkserver import JobExited, StartJob
from protocol.framing import Framer, MessageTooLarge, pack
from protocol.messages import positional, structure_request
from protocol.peer import own_access, peer_of, with_role

# The job processes of a fork server: created by fork, recorded until they end.
#
# The state survives an exec of the fork server, which keeps its pid and so its children.


_log = get_log(__name__)


@attrs.frozen
class Exit:
    """The end of a child."""

    # None: it was not a job process
    job_id: JobId | None
    pid: int
    # status as from waitpid
    wait_status: int


class Children:
    """The job processes, by pid.

    Args:
        jobs: pid -> job id of processes that an earlier program in this process has started.
    """

    def __init__(self, jobs: Mapping[int, JobId]) -> None:
        self._jobs = dict(jobs)

    @property
    def jobs(self) -> Mapping[int, JobId]:
        """pid -> job id, as a copy."""
        return dict(self._jobs)

    def start(self, job_id: JobId, sock: socket.socket, live: Callable[[JobId, socket.socket], int]) -> int:
        """Fork a process that calls `live(job_id, sock)` and exits with the returned code.

        `live` begins with the signals in `HANDLED` blocked.

        Returns: the pid.
        Raises:
            Conflict: the job already has a process.
            Unavailable: the kernel refuses another process.
        """
        for pid, other in self._jobs.items():
            if other == job_id:
                raise Conflict(f"job {job_id} has a process already, with pid {pid}", pid=pid)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                _live_and_exit(job_id, sock, live)
        except OSError as error:
            raise Unavailable(f"no process for job {job_id}: {_reason(error)}; try again later") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._jobs[pid] = job_id
        return pid

    def reap(self) -> Iterator[Exit]:
        """Yield the children that have ended, and forget them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                yield Exit(self._jobs.pop(pid, None), pid, status)


def _live_and_exit(job_id: JobId, sock: socket.socket, live: Callable[[JobId, socket.socket], int]) -> None:
    """Run the child. Never returns, so that no code of the parent runs in the child."""
    code = 1
    try:
        code = live(job_id, sock)
    except (OSError, MemoryError) as error:
        # nothing has happened to the job (`life.run`): luxid starts it again, and is told that this was no try of it
        with contextlib.suppress(BaseException):
            refuse(sock, _reason(error))
            _log.warning("job.not_started", job=job_id, reason=error)
    except BaseException:
        with contextlib.suppress(BaseException):
            _log.exception("job.crashed", job=job_id)
    finally:
        os._exit(code)


def _reason(error: OSError | MemoryError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else "out of memory"


# A control connection of the fork server: messages and descriptors in, replies and notifications out.
#
# It never waits. A peer that does not read is dropped at a backlog of `_BACKLOG_BYTES`.


_CHUNK: Final = 64 * 2**10
_MESSAGE_LIMIT: Final = 64 * 2**10
_BACKLOG_BYTES: Final = 4 * 2**20
_FDS_AT_ONCE: Final = 64


class Closed(Exception):
    """the connection is of no more use"""


class ControlConnection:
    """One client's connection; `sock` is non-blocking, and `close` closes it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._framer = Framer(_MESSAGE_LIMIT)
        # received descriptors that no message has claimed yet, oldest first
        self._fds: deque[int] = deque()
        self._unsent = bytearray()

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> list[bytes]:
        """Return the messages that have arrived.

        Raises: Closed: the peer has gone, or sent something that is not a message.
        """
        try:
            data, fds, flags, _ = socket.recv_fds(self.sock, _CHUNK, _FDS_AT_ONCE, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except OSError as error:
            raise Closed from error
        self._fds += fds
        if not data or flags & socket.MSG_CTRUNC:
            # descriptors that did not fit are lost, so the rest cannot be assigned to their messages
            raise Closed
        try:
            return self._framer.feed(data)
        except MessageTooLarge as error:
            raise Closed from error

    def claim_fd(self) -> socket.socket:
        """Return the socket that came with the current message.

        Raises: InvalidRequest: no descriptor came, or it is not a socket.
        """
        if not self._fds:
            raise InvalidRequest(f"{StartJob.METHOD} needs the job's end of a socket pair as ancillary data")
        fd = self._fds.popleft()
        try:
            return socket.socket(fileno=fd)
        except OSError:
            os.close(fd)
            raise InvalidRequest(f"the descriptor that came with {StartJob.METHOD} is not a socket") from None

    def drop_unclaimed_fds(self) -> None:
        """Close descriptors that came with messages without a use for them, unless a message is still incomplete."""
        while self._fds and not self._framer.pending:
            os.close(self._fds.popleft())

    def send(self, payload: bytes) -> None:
        """Send a message, or keep it until the peer reads.

        Raises: Closed: the peer has gone or does not read.
        """
        self._unsent += pack(payload)
        self.flush()

    def flush(self) -> None:
        """Send as much as the peer takes. Raises: Closed."""
        try:
            while self._unsent:
                del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            if len(self._unsent) > _BACKLOG_BYTES:
                raise Closed from None
        except OSError as error:
            raise Closed from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            while self._fds:
                os.close(self._fds.popleft())
        self.sock.close()


def read_start(payload: bytes) -> tuple[Call, StartJob] | bytes | None:
    """Read one control message.

    Returns: the call and its request; or the reply that refuses it; None: a notification, which
        gets no reply, and of which none is known here.
    """
    try:
        call = read_message(payload)
    except MalformedRequest as error:
        return failure(error, error)
    if isinstance(call, CallBatch):
        call_id = MalformedRequest("batches are not served here; send one request a message")
        return failure(call_id, call_id)
    if call.notification:
        return None
    try:
        if call.method != StartJob.METHOD:
            raise InvalidRequest(f"unknown method {call.method[:80]!r}; the fork server knows {StartJob.METHOD}")
        request = structure_request(StartJob, call.params)
    except GantryError as error:
        return failure(call, error)
    assert isinstance(request, StartJob)
    return call, request


def started(call: Call, pid: int) -> bytes:
    """The reply to a start."""
    return success(call, pid)


def exited(note: JobExited) -> bytes:
    """The notification that a job process has ended."""
    return ascii_json({"jsonrpc": "2.0", "method": note.METHOD, "params": positional(note)})


# variable set for the copy that only tests whether settings and code are good
TRIAL: Final = "GANTRY_FORKSERVER_TRIAL"
_AFTER_FAILURE: Final = "go on with the old code; mend what its standard error tells, and send HUP again"


class ExitWatch(Protocol):
    """A descriptor that is readable when `look` is to be called, which may end this process; allowed at any time."""

    def fileno(self) -> int: ...
    def look(self) -> None: ...
    def close(self) -> None: ...


class ForkServer:
    """The loop: control connections in, forks, ends of children out.

    It is made with the signals in `HANDLED` blocked. Then it has all descriptors that it needs to be ready.

    Args:
        listener: a non-blocking listening socket.
        groups: tree for the control groups of commands; None: no control groups here.
        guard: ends this process, with all jobs, when the mastership of this node has run out; None: it does not.
    """

    def __init__(
        self,
        settings: Settings,
        listener: socket.socket,
        children: Children,
        groups: GroupTree | None,
        guard: ExitWatch | None = None,
    ) -> None:
        self._settings = settings
        self._groups = groups
        self._listener = listener
        self._children = children
        self._access = own_access()
        self._connections: list[ControlConnection] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._guard = guard
        if guard is not None:
            self._selector.register(guard, selectors.EVENT_READ)
        self._signals = ProcessSignals()
        self._signals.install()
        self._selector.register(self._signals.fileno(), selectors.EVENT_READ)
        self._trial: subprocess.Popen[bytes] | None = None
        # seconds; None: nobody waits for signs of life
        self._sign_interval_s = sign_interval_s()

    def serve(self) -> bool:
        """Serve until SIGTERM (returns false), or until fresh code can take over (returns true).

        At the end the signals in `HANDLED` are blocked again: one that comes afterwards is for the fresh code.
        """
        if self._sign_interval_s is not None:
            tell_stacks_at_the_end()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        # children of the previous program in this process: their signal may be gone
        self._reap()
        while not self._signals.cancel_asked:
            for key, events in self._wait():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, ControlConnection):
                    self._attend(key.data, events)
                elif key.fileobj is not self._guard:
                    self._signals.drain()
            self._reap()
            if self._is_fresh_code_good():
                break
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        # it may have come since the trial
        return not self._signals.cancel_asked

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events; with a guard, this process ends here when it may not carry them out."""
        if self._sign_interval_s is not None:
            notify(SIGN)
        events = self._selector.select(self._sign_interval_s)
        if self._guard is not None:
            self._guard.look()
        return events

    def close(self) -> None:
        """Close the control connections and the guard; the listening socket is the caller's."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._selector.close()
        if self._guard is not None:
            self._guard.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            # the client gave up, or no descriptors are left: the latter must not become a busy loop
            if not isinstance(error, BlockingIOError | ConnectionAbortedError):
                _log.warning("accept.failed", error=error, next="try again")
                time.sleep(0.1)
            return
        peer = with_role(peer_of(sock), self._access)
        if peer.role < Role.FULL:
            _log.warning("connection.denied", peer=peer)
            sock.close()
            return
        sock.setblocking(False)
        connection = ControlConnection(sock)
        self._connections.append(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _attend(self, connection: ControlConnection, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                connection.flush()
            if events & selectors.EVENT_READ:
                for payload in connection.receive():
                    self._answer(connection, payload)
                connection.drop_unclaimed_fds()
            self._watch(connection)
        except Closed:
            self._drop(connection)

    def _answer(self, connection: ControlConnection, payload: bytes) -> None:
        """Raises: Closed."""
        match found := read_start(payload):
            case bytes() as refusal:
                _log.warning("control.refused", message=payload[:200].decode(errors="replace"))
                connection.send(refusal)
            case (call, request):
                connection.send(self._start(connection, call, request))
            case None:
                pass
            case _:
                assert_never(found)

    def _start(self, connection: ControlConnection, call: Call, request: StartJob) -> bytes:
        try:
            with connection.claim_fd() as sock:
                pid = self._children.start(request.job_id, sock, self._live)
        except GantryError as error:
            _log.warning("job.not_forked", job=request.job_id, error=error)
            return failure(call, error)
        _log.debug("job.forked", job=request.job_id, pid=pid)
        return started(call, pid)

    def _live(self, job_id: JobId, sock: socket.socket) -> int:
        """Run the job, in the child, after leaving everything of the parent behind."""
        self.close()
        self._signals.begin_anew()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.setsid()
        self._listener.close()
        rename_program("job")
        setproctitle.setproctitle(f"gantry-job {job_id}")
        return life.run(job_id, sock, self._settings, self._signals, self._groups)

    def _reap(self) -> None:
        for end in self._children.reap():
            if end.job_id is not None:
                _log.debug("job.process_ended", job=end.job_id, pid=end.pid, wait_status=end.wait_status)
                self._tell_all(exited(JobExited(end.job_id, end.pid, end.wait_status)))
            elif self._trial is not None and end.pid == self._trial.pid:
                self._trial.returncode = os.waitstatus_to_exitcode(end.wait_status)

    def _tell_all(self, note: bytes) -> None:
        for connection in tuple(self._connections):
            try:
                connection.send(note)
                self._watch(connection)
            except Closed:
                self._drop(connection)

    def _watch(self, connection: ControlConnection) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
        if self._selector.get_key(connection.sock).events != events:
            self._selector.modify(connection.sock, events, connection)

    def _drop(self, connection: ControlConnection) -> None:
        self._connections.remove(connection)
        self._selector.unregister(connection.sock)
        connection.close()

    def _is_fresh_code_good(self) -> bool:
        """Try the code on disk when asked to; return true once a trial has succeeded."""
        if self._trial is not None and self._trial.returncode is not None:
            code, self._trial = self._trial.returncode, None
            if code == 0:
                return True
            _log.error("code.not_renewed", exit_code=code, next=_AFTER_FAILURE)
        # a HUP during a trial asks for another one: what failed may be mended since
        if self._signals.hup_came and self._trial is None:
            self._signals.hup_came = False
            # also for a rotation of the logs, which must not depend on the trial
            reopen_log()
            self._trial = _begin_trial()
        return False


def _begin_trial() -> "subprocess.Popen[bytes] | None":
    """Start a copy that only tests the code on disk; None: it cannot be started, and the jobs must not suffer."""
    argv = [sys.executable, *sys.orig_argv[1:]]
    try:
        return subprocess.Popen(argv, env={**os.environ, TRIAL: "1"}, stdin=subprocess.DEVNULL)
    except OSError as error:
        _log.error("code.not_renewed", reason=error, next="go on with the old code; send HUP again")
        return None
