"""The loop of the fork server: control connections, forks, ends of children.

Source: DESIGN section 7; protocol.forkserver.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Final, Protocol, assert_never

import setproctitle

from common.access import Role
from common.commands.cgroups import GroupTree
from common.errors import GantryError
from common.ids import JobId
from common.settings import Settings
from common.system.daemons.sdnotify import notify
from common.system.daemons.watchdog import SIGN, sign_interval_s, tell_stacks_at_the_end
from common.system.log import get_log, rename_program, reopen_log
from common.system.signals import HANDLED, ProcessSignals
from daemons.jobproc import life
from daemons.jobproc.forkserver.children import Children
from daemons.jobproc.forkserver.control import Closed, ControlConnection, exited, read_start, started
from protocol.envelope import Call, failure
from protocol.forkserver import JobExited, StartJob
from protocol.peer import own_access, peer_of, with_role

# variable set for the copy that only tests whether settings and code are good
TRIAL: Final = "GANTRY_FORKSERVER_TRIAL"
_AFTER_FAILURE: Final = "go on with the old code; mend what its standard error tells, and send HUP again"
_log = get_log(__name__)


class Guard(Protocol):
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
        guard: Guard | None = None,
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
