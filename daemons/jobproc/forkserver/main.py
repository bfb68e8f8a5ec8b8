"""gantry-forkserver: a process that has everything imported, and forks a child for each job.

Theory. Starting an interpreter takes a tenth of a second, forking a warm one two milliseconds. For
this the parent must stay simple: one thread, no event loop library, and its objects frozen, so that
the children's garbage collection does not touch, and so copy, the memory that they share with it.
Half of a child's work is such copying; so the parent makes once what each child would make anew
(`warmup`, `rehearsal`).

It outlives luxid, which finds it by its socket, and its end does not touch the jobs: they go on, and
their livelocks report their deaths. SIGHUP makes it start over with fresh code in the same
process. First a copy is tried that only imports everything; if that works, exec replaces the program, while
the listening socket stays open and its queue keeps the clients that connect meanwhile.

Source: DESIGN section 7; protocol.forkserver.
"""

import contextlib
import gc
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, assert_never

import orjson
import setproctitle

from common.access import Role
from common.errors import Conflict, GantryError
from common.ids import JobId
from common.settings import ROOT_VARIABLE, Settings
from common.system.log import get_log, rename_program
from common.system.pidfile import PidFile
from common.system.program import Options, fail, prepare, read_options
from common.system.sdnotify import notify
from daemons.jobproc import life
from daemons.jobproc.commands.cgroups import GroupTree, find_groups
from daemons.jobproc.commands.limits import sweep_limit_groups
from daemons.jobproc.commands.surroundings import take_surroundings
from daemons.jobproc.forkserver.children import Children
from daemons.jobproc.forkserver.control import Closed, ControlConnection, exited, read_start, started
from daemons.jobproc.forkserver.rehearsal import rehearse
from daemons.jobproc.forkserver.warmup import warm_up
from daemons.jobproc.signals import HANDLED, ProcessSignals
from protocol.dial import reachable
from protocol.envelope import Call, failure
from protocol.forkserver import JobExited, StartJob
from protocol.peer import own_access, peer_of, with_role

NAME: Final = "forkserver"
# variable set across an exec, with the state that the previous program leaves for the next one
INHERITED: Final = "GANTRY_FORKSERVER_INHERITED"
# variable set for the copy that only tests whether the code can be imported
TRIAL: Final = "GANTRY_FORKSERVER_TRIAL"
_BACKLOG: Final = 128
_log = get_log(__name__)


class ForkServer:
    """The loop: control connections in, forks, ends of children out.

    Args:
        listener: a non-blocking listening socket.
        groups: tree for the control groups of commands; None: no control groups here.
    """

    def __init__(
        self, settings: Settings, listener: socket.socket, children: Children, groups: GroupTree | None
    ) -> None:
        self._settings = settings
        self._groups = groups
        self._listener = listener
        self._children = children
        self._access = own_access()
        self._connections: list[ControlConnection] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._signals = ProcessSignals()
        self._trial: subprocess.Popen[bytes] | None = None

    def serve(self) -> bool:
        """Serve until SIGTERM (returns false), or until fresh code can take over (returns true)."""
        self._signals.install()
        self._selector.register(self._signals.fileno(), selectors.EVENT_READ)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        # children of the previous program in this process: their signal may be gone
        self._reap()
        while not self._signals.cancel_asked:
            for key, events in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, ControlConnection):
                    self._attend(key.data, events)
                else:
                    self._signals.drain()
            self._reap()
            if self._is_fresh_code_good():
                return True
        return False

    def close(self) -> None:
        """Close the control connections; the listening socket is the caller's."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._selector.close()

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
        if self._signals.hup_came and self._trial is None:
            self._signals.hup_came = False
            self._trial = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]], env={**os.environ, TRIAL: "1"}, stdin=subprocess.DEVNULL
            )
        if self._trial is None or self._trial.returncode is None:
            return False
        code, self._trial = self._trial.returncode, None
        if code != 0:
            _log.error("code.not_renewed", exit_code=code, next="go on with the old code; try the program by hand")
        return code == 0


def _listen(path: Path) -> socket.socket:
    """Listen at `path`, which only our own user may use. We hold the pid file, so an existing socket is stale.

    Raises: Conflict: the file there is not a socket. OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise Conflict(f"{path} is not a socket; move it away")
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with reachable(path) as address:
            listener.bind(address)
        # clients cannot connect before listen(), so a wider mode never takes effect
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _take_over() -> tuple[socket.socket, Children] | None:
    """The state that the previous program left in this process; None at a first start."""
    text = os.environ.pop(INHERITED, None)
    if text is None:
        return None
    left = orjson.loads(text)
    listener = socket.socket(fileno=left["listener"])
    listener.setblocking(False)
    os.set_inheritable(listener.fileno(), False)
    return listener, Children({int(pid): JobId(job_id) for pid, job_id in left["jobs"].items()})


def _exec_fresh_code(listener: socket.socket, children: Children, pid_file: PidFile) -> None:
    """Replace this program by the code on disk.

    Raises: OSError: it cannot be executed.
    """
    left = {"listener": listener.fileno(), "jobs": {str(pid): job_id for pid, job_id in children.jobs.items()}}
    # signals wait until the loop runs again: their default action is death
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    os.environ[INHERITED] = orjson.dumps(left).decode()
    os.set_inheritable(listener.fileno(), True)
    pid_file.keep_over_exec()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _run(options: Options) -> None:
    # until the loop runs, signals wait: an extra HUP must not end the process
    signal.pthread_sigmask(signal.SIG_SETMASK, HANDLED)
    take_surroundings()
    settings, pid_file = prepare(NAME, options)
    if options.root is not None:
        # commands of jobs find the installation that they belong to
        os.environ[ROOT_VARIABLE] = os.path.abspath(options.root)
    path = settings.paths.forkserver_socket
    listener, children = _take_over() or (_listen(path), Children({}))
    groups = find_groups(settings.jobproc.cgroups, settings.paths.run)
    sweep_limit_groups(settings.paths.run)
    if groups is not None:
        groups.sweep()
    warm_up()
    rehearse(settings)
    gc.collect()
    gc.freeze()
    server = ForkServer(settings, listener, children, groups)
    holding = groups.way.value if groups is not None else "descendants"
    _log.info("forkserver.ready", pid=os.getpid(), socket=path, jobs=len(children.jobs), commands_held_by=holding)
    notify("READY=1")
    wants_exec = server.serve()
    server.close()
    if wants_exec:
        _log.info("code.renewed")
        notify("RELOADING=1")
        _exec_fresh_code(listener, children, pid_file)
    notify("STOPPING=1")
    path.unlink(missing_ok=True)
    listener.close()
    pid_file.release()
    if groups is not None:
        groups.sweep()
    _log.info("forkserver.ended", jobs_left=len(children.jobs))


def main(argv: Sequence[str] | None = None) -> None:
    """The program gantry-forkserver."""
    if os.environ.pop(TRIAL, None):
        warm_up()
        return
    options = read_options("gantry-forkserver", "Forks a process for each job.", argv)
    try:
        _run(options)
    except (GantryError, OSError) as error:
        fail("gantry-forkserver", error)


if __name__ == "__main__":
    main()
