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
from typing import Final, Protocol

import attrs
import setproctitle

from common.access import Role
from common.commands.cgroups import GroupTree
from common.errors import GantryError, InvalidRequest, Unavailable
from common.ids import JobId
from common.settings import Settings
from common.system.log import get_log, rename_program, reopen_log
from common.system.program import SIGN, notify, sign_interval_s, tell_stacks_at_the_end
from common.system.signals import HANDLED, ProcessSignals
from daemons.jobproc import life
from daemons.jobproc.life import refuse
from protocol.envelope import CallBatch, MalformedRequest, failure, read_message, success
from protocol.forkserver import VERSION, StartJob, Version
from protocol.framing import Framer, MessageTooLarge, pack
from protocol.messages import structure_request
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

    def has(self, job_id: JobId) -> bool:
        """Whether a process of this job was started and has not been reaped."""
        return job_id in self._jobs.values()

    @property
    def jobs(self) -> Mapping[int, JobId]:
        """pid -> job id, as a copy."""
        return dict(self._jobs)

    def start(self, job_id: JobId, sock: socket.socket, live: Callable[[JobId, socket.socket], int]) -> int:
        """Fork a process that calls `live(job_id, sock)` and exits with the returned code.

        `live` begins with the signals in `HANDLED` blocked.

        Returns: the pid.
        Raises: Unavailable: the kernel refuses another process.
        """
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


# A control connection of the fork server: messages and descriptors in, replies out.
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


def read_control(payload: bytes) -> StartJob | bytes | None:
    """Read one control message.

    Returns: the job to be started; or the reply to a call; None: a notification that is not known here.
    """
    try:
        call = read_message(payload)
    except MalformedRequest as error:
        return failure(error, error)
    if isinstance(call, CallBatch):
        call_id = MalformedRequest("batches are not served here; send one request a message")
        return failure(call_id, call_id)
    try:
        if call.notification:
            return structure_request(StartJob, call.params) if call.method == StartJob.METHOD else None
        if call.method != Version.METHOD:
            raise InvalidRequest(
                f"unknown method {call.method[:80]!r}; the fork server knows {Version.METHOD}, and the notification "
                f"{StartJob.METHOD}"
            )
    except GantryError as error:
        if not call.notification:
            return failure(call, error)
        _log.warning("control.ignored", message=payload[:200].decode(errors="replace"), reason=error)
        return None
    return success(call, VERSION)


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
        # ends of the socket pairs of jobs whose earlier processes have not ended yet
        self._postponed: dict[JobId, socket.socket] = {}
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
        for sock in self._postponed.values():
            sock.close()
        self._postponed.clear()
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
        match read_control(payload):
            case bytes() as reply:
                connection.send(reply)
            case StartJob(job_id):
                try:
                    self._start(job_id, connection.claim_fd())
                except InvalidRequest as error:
                    _log.warning("job.not_forked", job=job_id, error=error)
            case None:
                pass

    def _start(self, job_id: JobId, sock: socket.socket) -> None:
        """Fork a process for the job, or do so when its earlier one has ended; `sock` goes to the process."""
        if _is_given_up(sock):
            sock.close()
            return
        if self._children.has(job_id):
            _log.debug("job.start_early", job=job_id)
            if (older := self._postponed.pop(job_id, None)) is not None:
                older.close()
            self._postponed[job_id] = sock
            return
        with sock:
            try:
                pid = self._children.start(job_id, sock, self._live)
            except Unavailable as error:
                _log.warning("job.not_forked", job=job_id, error=error)
                refuse(sock, error.message)
            else:
                _log.debug("job.forked", job=job_id, pid=pid)

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
                if (sock := self._postponed.pop(end.job_id, None)) is not None:
                    self._start(end.job_id, sock)
            elif self._trial is not None and end.pid == self._trial.pid:
                self._trial.returncode = os.waitstatus_to_exitcode(end.wait_status)

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


def _is_given_up(sock: socket.socket) -> bool:
    """Whether luxid has closed its end: it has waited too long, or has ended."""
    try:
        return not sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _begin_trial() -> "subprocess.Popen[bytes] | None":
    """Start a copy that only tests the code on disk; None: it cannot be started, and the jobs must not suffer."""
    argv = [sys.executable, *sys.orig_argv[1:]]
    try:
        return subprocess.Popen(argv, env={**os.environ, TRIAL: "1"}, stdin=subprocess.DEVNULL)
    except OSError as error:
        _log.error("code.not_renewed", reason=error, next="go on with the old code; send HUP again")
        return None
