"""The start of a daemon: arguments, settings, folders, log, pid file. No event loop here.

Source: luxid.md 5.10.
"""

import argparse
import contextlib
import faulthandler
import fcntl
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NoReturn, Self

import attrs

from common.durable.folders import check_kinds
from common.errors import Conflict
from common.installation import take_up
from common.replica.replica import NoLongerMaster
from common.settings import Settings
from common.settingsfile import load_settings
from common.system.log import ERROR, get_log, is_journal, set_up_logging

# Pid files: one daemon of a kind in an installation.
#
# The file is held with a POSIX write lock, as by Ganeti's daemons, so the two refuse each other.
# That lock is lost when the process closes any other descriptor of the file: the holder must not
# open its own pid file. The presence of the file proves nothing; only the lock does.
#
# Source: wconfd.md 1.1.


class PidFile:
    """A pid file held by this process."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._pid = os.getpid()

    @classmethod
    def take(cls, path: Path) -> Self:
        """Lock the file and write our pid and a newline to it, mode 0600.

        Raises:
            Conflict: another process holds it; the message names its pid.
            OSError: the file cannot be written.
        """
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if _lock(path, fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                    return cls(path, fd)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def keep_over_exec(self) -> None:
        """Keep the lock when this process executes another program, which may `take` the file again."""
        os.set_inheritable(self._fd, True)

    def release(self) -> None:
        """Delete the file and release it; harmless when repeated, and in a forked child."""
        if self._fd < 0 or self._pid != os.getpid():
            return
        # deleted while still locked: a process that opened it before notices that in `_lock`
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self._fd)
        self._fd = -1


def _lock(path: Path, fd: int) -> bool:
    """Lock the file; return False if its last holder deleted it meanwhile, and the caller must try again."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise Conflict(
            f"already running with pid {pid}: it holds '{path}'; stop it first, or choose another root", pid=pid
        ) from None
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


# Report the state of the daemon to systemd: one datagram, or nothing without systemd.


# beginning of the socket's name where systemd listens, and not our supervisor
_SYSTEMD: Final = "/run/systemd/"


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1`, `STATUS=...` (several separated by newlines) to the service manager.

    Without one (NOTIFY_SOCKET is unset) nothing happens. Never raises: a daemon must not fail because
    the service manager does not listen.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        # an abstract name; a leading NUL marks it for the kernel
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender,
    ):
        sender.sendto(state.encode("utf-8", "replace"), address)


def notify_idle(why: str) -> None:
    """Tell systemd that this service ends since there is nothing for it to do here; to be called before it was ready.

    systemd takes a service that ends before it is ready for failed, whatever its exit code. Our supervisor needs no
    more than the code.
    """
    if os.environ.get("NOTIFY_SOCKET", "").startswith(_SYSTEMD):
        notify(f"READY=1\nSTATUS={why}")


# exit code of a daemon of the master on a node that is not: Ganeti's, and no failure
NOT_MASTER: Final = 11
# of Ganeti's daemons: who may be the master
_ON_MASTERSHIP: Final = {
    "--force-node": "start although the files of ssconf name another master",
    "--no-voting": "do not ask the other nodes who is the master; two may be, so only with --yes-do-it",
    "--yes-do-it": "confirms --no-voting",
}
_log = get_log(__name__)


@attrs.frozen
class DaemonOptions:
    """The command line options of every daemon."""

    root: Path | None
    debug: bool
    # whether to log to stderr instead of the log file
    log_to_stderr: bool
    # whether the files of ssconf may name another master; whether the nodes are not asked, and that is confirmed
    force_node: bool = False
    no_voting: bool = False
    yes_do_it: bool = False
    # values of the options of one daemon, by their names; None: not given
    more: Mapping[str, object] = attrs.field(factory=dict)


# adds the options of one daemon
AddOptions = Callable[[argparse.ArgumentParser], None]


def read_options(
    program: str, description: str, argv: Sequence[str] | None = None, add_options: AddOptions | None = None
) -> DaemonOptions:
    """Read the command line; ends the program on --help, --version and on a wrong option (2)."""
    parser = argparse.ArgumentParser(program, description=description)
    parser.add_argument("--root", type=Path, metavar="DIR", help="a private installation: DIR/lib, DIR/run, DIR/log")
    parser.add_argument("-d", "--debug", action="store_true", help="log more")
    parser.add_argument("-f", "--foreground", action="store_true", help="accepted; daemons always stay in it")
    for option, text in _ON_MASTERSHIP.items():
        parser.add_argument(option, action="store_true", help=text)
    parser.add_argument("--no-user-checks", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--syslog", nargs="?", const="yes", choices=["yes", "no", "only"], help=argparse.SUPPRESS)
    parser.add_argument("--log-stderr", action="store_true", help="log to stderr instead of the log file")
    parser.add_argument("--version", action="version", version=f"%(prog)s {release()}")
    if add_options is not None:
        add_options(parser)
    given = parser.parse_args(argv)
    mastership = {"force_node": given.force_node, "no_voting": given.no_voting, "yes_do_it": given.yes_do_it}
    return DaemonOptions(given.root, given.debug, given.log_stderr, **mastership, more=vars(given))


def release() -> str:
    """The version of this Gantry."""
    try:
        return version("gantry")
    except PackageNotFoundError:
        return "unreleased"


def prepare(name: str, options: DaemonOptions) -> tuple[Settings, PidFile]:
    """Load the settings, take up the installation, take the pid file, start the log.

    Raises: GantryError: bad settings, a root too long for sockets, folders that others could change, something in the
            folder for data that is neither file nor folder, or the daemon runs already.
        OSError: a folder or file cannot be made.
    """
    settings = load_settings(options.root)
    take_up(settings)
    pid_file = PidFile.take(settings.paths.pid_file(name))
    if settings.ganeti.process_names:
        # name of the first thread, which is the name of the process; Ganeti's are those of its pid files
        stem = settings.paths.pid_file(name).stem
        Path("/proc/self/comm").write_text(stem if stem.startswith("ganeti-") else f"ganeti-{name}")
    path = None if options.log_to_stderr else settings.paths.log_file(name)
    set_up_logging(name, path=path, debug=options.debug)
    check_kinds([settings.paths.data])
    return settings, pid_file


def fail(name: str, error: Exception) -> NoReturn:
    """Report why the daemon cannot run, and exit with 1, or with 11 if another node is the master."""
    message = str(error)
    has_log = logging.getLogger().hasHandlers()
    if not (has_log and is_journal()):
        print(f"{ERROR if is_journal() else ''}{name}: error: {message}", file=sys.stderr)
    # without our log handler the event would go to stderr as well, and without its reason
    if has_log:
        _log.error("daemon.failed", reason=message)
    if isinstance(error, NoLongerMaster):
        notify_idle(message)
        sys.exit(NOT_MASTER)
    notify(f"STATUS={' '.join(message.split())}")
    sys.exit(1)


# Signs of life for systemd, which kills and restarts a service that gives none for `WatchdogSec=`.
#
# Each sign comes from the loop that does the work of the daemon: if that hangs, the signs end. Jobs do not notice; the
# new process goes on with what is in the files. Before systemd kills, it sends SIGABRT, at which the stacks of all
# threads are written to standard error, which is the journal.


SIGN: Final = "WATCHDOG=1"
# so many signs in the time in which one is needed
_SIGNS: Final = 3


def sign_interval_s() -> float | None:
    """Return the seconds from one sign to the next; None: nobody waits for signs of this process."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 1e6 / _SIGNS


def tell_stacks_at_the_end() -> None:
    """Let SIGABRT and the like write the stacks of all threads to standard error before they end this process."""
    faulthandler.enable()
