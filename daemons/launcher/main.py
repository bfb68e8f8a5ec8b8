"""gantry-launcher: a process of root that starts commands for the daemons, which are an ordinary user's.

Theory. luxid, job processes and noded run as `gantry` and cannot become another user. They ask here, through a socket
that only they can open. Each connection gets a forked child, which checks the caller (SO_PEERCRED), reads root's rules,
decides, makes the command's control group, and becomes the supervisor of the command; so the loop itself reads nothing
from a caller, and nobody waits for another. The child opens no path of its caller before it has become the job's user:
what it needs comes as descriptors.

Supervisors outlive the launcher, as they outlive job processes. A restarted launcher finds them by their records. If a
supervisor ends before its command, as when it was killed, the launcher empties the command's group; the job process
waits for that.

It has no opcodes, no plug-ins and no settings but root's file.

Source: DESIGN sections 5, 7 and 16; protocol.launcher.
"""

import argparse
import contextlib
import gc
import os
import selectors
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import setproctitle

from common.commands.cgroups import find_groups, sweep_limit_groups
from common.commands.surroundings import take_surroundings
from common.errors import GantryError, PrerequisiteError
from common.installation import RULES_FILE
from common.system.accounts import check_trusted, user_named
from common.system.log import get_log, set_up_logging
from common.system.program import SIGN, fail, notify, release, sign_interval_s, tell_stacks_at_the_end
from common.system.signals import HANDLED, ProcessSignals
from daemons.launcher.records import LaunchRecords, Record
from daemons.launcher.starting import LauncherContext, end_group, read_rules, serve_request
from protocol.unixsocket import reachable

NAME: Final = "gantry-launcher"
FOLDER: Final = Path("/run/gantry-launcher")
_BACKLOG: Final = 128
# descriptor of the first socket that systemd passes
_PASSED: Final = 3
# seconds between two rounds of emptying the group of a lost supervisor
_AGAIN_S: Final = 0.1
_log: Final = get_log(__name__)


class LauncherLoop:
    """The loop: connections in, forks, ends of supervisors."""

    def __init__(self, listener: socket.socket, place: LauncherContext) -> None:
        self._listener = listener
        self._place = place
        self._signals = place.signals
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._signals.fileno(), selectors.EVENT_READ)
        # records of lost supervisors, whose groups are not empty yet
        self._lost: list[Record] = []
        self._sign_interval_s = sign_interval_s()

    def serve(self) -> None:
        """Serve until SIGTERM."""
        if self._sign_interval_s is not None:
            tell_stacks_at_the_end()
        self._take_up()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        while not self._signals.cancel_asked:
            for key, _ in self._wait():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._ended(key.fd, key.data)
                else:
                    self._signals.drain()
            self._reap()
            self._lost = [record for record in self._lost if not self._settle(record)]

    def _wait(self) -> list[tuple[selectors.SelectorKey, int]]:
        if self._sign_interval_s is not None:
            notify(SIGN)
        return self._selector.select(_AGAIN_S if self._lost else self._sign_interval_s)

    def _take_up(self) -> None:
        """Find the supervisors that an earlier launcher has started."""
        for record in self._place.records.all().values():
            try:
                pidfd = os.pidfd_open(record.pid)
            except OSError:
                pidfd = -1
            if record.is_supervised and pidfd >= 0:
                self._selector.register(pidfd, selectors.EVENT_READ, record.pid)
                continue
            if pidfd >= 0:
                os.close(pidfd)
            self._look_after(record.pid)

    def _ended(self, pidfd: int, pid: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        self._look_after(pid)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._look_after(pid)

    def _look_after(self, pid: int) -> None:
        """A process has ended; if it was a supervisor that has not finished, its command is to be ended."""
        if (record := self._place.records.read(pid)) is not None:
            _log.error("supervisor.lost", pid=pid, folder=record.folder, next="all processes of the command are ended")
            self._lost.append(record)

    def _settle(self, record: Record) -> bool:
        """Whether the group of a lost supervisor is empty, and gone."""
        if not end_group(record):
            return False
        self._place.records.remove(record.pid)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            # the client gave up, or no descriptors are left: the latter must not become a busy loop
            if not isinstance(error, BlockingIOError | ConnectionAbortedError):
                _log.warning("accept.failed", reason=error, next="try again")
                time.sleep(_AGAIN_S)
            return
        with sock:
            self._fork(sock)

    def _fork(self, sock: socket.socket) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            if os.fork() == 0:
                self._serve_and_exit(sock)
        except OSError as error:
            # the caller sees the end of its connection: nothing was started
            _log.warning("request.not_served", reason=error)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _serve_and_exit(self, sock: socket.socket) -> None:
        """Run the child. Never returns, so that no code of the parent runs in it."""
        try:
            self._selector.close()
            self._listener.close()
            setproctitle.setproctitle(f"{NAME}: a request")
            sock.setblocking(True)
            serve_request(sock, self._place)
        except BaseException:
            with contextlib.suppress(BaseException):
                _log.exception("request.failed")
        finally:
            os._exit(0)


def _listen(folder: Path, caller: str) -> socket.socket:
    """The socket that systemd passes; without it one of our own, which only the caller may use.

    Raises: PrerequisiteError: there is no such user. OSError.
    """
    given = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    if given == (str(os.getpid()), "1"):
        listener = socket.socket(fileno=_PASSED)
        os.set_inheritable(_PASSED, False)
        listener.setblocking(False)
        return listener
    user = user_named(caller)
    if user is None:
        raise PrerequisiteError(f"there is no user {caller!r} on this machine, who is to call the launcher")
    path = folder / "socket"
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    with reachable(path) as address:
        listener.bind(address)
    # clients cannot connect before listen(), so a wider mode never takes effect
    path.chmod(0o600)
    os.chown(path, user.pw_uid, user.pw_gid)
    listener.listen(_BACKLOG)
    return listener


def _run(folder: Path, rules_file: Path) -> None:
    if os.geteuid() != 0:
        raise PrerequisiteError("the launcher runs as root; other users need none: their commands run as themselves")
    # until the loop runs, signals wait
    signal.pthread_sigmask(signal.SIG_SETMASK, HANDLED)
    take_surroundings()
    os.umask(0o077)
    rules = read_rules(rules_file)
    folder.mkdir(0o755, exist_ok=True)
    folder.chmod(0o755)
    check_trusted(folder)
    groups = find_groups("auto", folder)
    if groups is None:
        raise PrerequisiteError("the launcher needs control groups, and can make none here; in a service: Delegate=yes")
    records = LaunchRecords(folder / "commands")
    sweep_limit_groups(folder)
    groups.sweep({os.path.basename(record.folder) for record in records.all().values()})
    signals = ProcessSignals()
    signals.install()
    listener = _listen(folder, rules.callers[0] if rules.callers else "")
    launcher = LauncherLoop(listener, LauncherContext(rules_file, rules.callers, folder, records, groups, signals))
    setproctitle.setproctitle(NAME)
    gc.collect()
    gc.freeze()
    _log.info("launcher.ready", pid=os.getpid(), callers=",".join(rules.callers), commands_held_by=groups.way.value)
    notify("READY=1")
    launcher.serve()
    notify("STOPPING=1")
    _log.info("launcher.ended")


def main(argv: Sequence[str] | None = None) -> None:
    """The program gantry-launcher."""
    parser = argparse.ArgumentParser(NAME, description="Starts commands of jobs as their users; runs as root.")
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIR", help="folder of its own")
    parser.add_argument("--rules", type=Path, default=RULES_FILE, metavar="FILE", help="who may run as whom")
    parser.add_argument("-d", "--debug", action="store_true", help="log more")
    parser.add_argument("--version", action="version", version=f"%(prog)s {release()}")
    given = parser.parse_args(argv)
    set_up_logging("launcher", path=None, debug=given.debug)
    try:
        _run(Path(os.path.abspath(given.folder)), Path(os.path.abspath(given.rules)))
    except (GantryError, OSError) as error:
        fail(NAME, error)


if __name__ == "__main__":
    main()
