"""A forked process that becomes a program: with its group, user and surroundings, and without our descriptors.

Source: DESIGN sections 5 and 16.
"""

import contextlib
import ctypes
import enum
import errno
import fcntl
import json
import os
import resource
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import attrs
import orjson

from common.commands.cgroups import ControlGroup

# The steps of a command's process between fork and exec, as the user of the command.
#
# Its folder and the file for its standard input are opened here, not by the job process, which may be root: so
# the kernel checks the rights of the job's user. The job's limits are also set here, because they
# must not bind the job process. A failed step is reported through a pipe of its own, with the object that it concerned.


# bytes of a report; a path has less than a quarter of it
_LONGEST: Final = 2**16


class StartStep(enum.Enum):
    """A step that can fail."""

    FOLDER = "folder"
    INPUT = "input"
    LIMIT = "limit"
    NICENESS = "niceness"


@attrs.frozen
class StepFailure:
    """A failed step, its object, and its errno, if it has one."""

    step: StartStep
    name: str
    number: int | None


@attrs.frozen
class Prelude:
    """The steps of one command; unwanted ones are left out.

    `report` is called in the child, `failure` in the parent when the start has failed.
    """

    cwd: str | None = None
    # path to open for reading
    stdin_path: str | None = None
    # number of the kernel's limit -> (soft, hard)
    limits: Mapping[int, tuple[int, int]] = attrs.field(factory=dict)
    # niceness to add
    niceness: int = 0
    # reading and writing end, non-blocking
    pipe: tuple[int, int] = attrs.field(factory=lambda: os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))

    def run(self) -> None:
        """Do the steps; in the child. Raises: OSError, ValueError: a step failed, and has been reported."""
        step, name = StartStep.FOLDER, ""
        try:
            if self.cwd is not None:
                name = self.cwd
                os.chdir(self.cwd)
            if self.stdin_path is not None:
                step, name = StartStep.INPUT, self.stdin_path
                _take_input(self.stdin_path)
            step = StartStep.NICENESS
            if self.niceness:
                name = str(self.niceness)
                os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + self.niceness)
            step = StartStep.LIMIT
            for limit, pair in self.limits.items():
                name = str(limit)
                resource.setrlimit(limit, pair)
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else None
            os.write(self.pipe[1], json.dumps([step.value, name, number]).encode())
            raise

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that `run` needs; they close when the program is executed."""
        return frozenset(self.pipe)

    def failure(self) -> StepFailure | None:
        """Return the failed step; None: none failed."""
        try:
            step, name, number = json.loads(os.read(self.pipe[0], _LONGEST))
        except (BlockingIOError, ValueError):
            return None
        return StepFailure(StartStep(step), name, number)

    def close(self) -> None:
        for fd in self.pipe:
            os.close(fd)


def _take_input(path: str) -> None:
    # a pipe without a writer must not block the start; and input from a pipe with one could not be read a second time
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise ValueError("not a regular file")
    os.set_blocking(fd, True)
    os.dup2(fd, 0, inheritable=True)


_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_NOT_EXECUTED: Final = 127
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1
_KEYCTL_CHOWN: Final = 4
_KEY_SPEC_SESSION_KEYRING: Final = -3
# number of keyctl(2) by the machine, as the C library has no function for it
_KEYCTL: Final = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
# a kernel without keys, or a container that lets nobody use them
_NO_KEYS: Final = (errno.ENOSYS, errno.EPERM, errno.EACCES)
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Stage(enum.Enum):
    """The stage at which the start of a program failed."""

    # a wanted limit has no group
    LIMIT = "limit"
    GROUP = "group"
    USER = "user"
    # the prelude has the details
    PRELUDE = "prelude"
    EXEC = "exec"


class NotStarted(Exception):
    """The program did not start; `error` has the reason, and its `filename` the object."""

    def __init__(self, stage: Stage, error: OSError) -> None:
        super().__init__(str(error))
        self.stage = stage
        self.error = error


@attrs.frozen
class UnixAccount:
    """The user and groups that a program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@attrs.frozen
class Launch:
    """A program to start."""

    argv: Sequence[str]
    env: Mapping[str, str]
    # steps in the program's process, as its user, before the program begins
    prelude: Prelude
    # None: the job process's user
    account: UnixAccount | None = None
    umask: int = 0o022
    # descriptor of standard input; None: empty input
    stdin: int | None = None

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that the start needs."""
        return self.prelude.fds | (frozenset() if self.stdin is None else {self.stdin})


@attrs.frozen
class Berth:
    """The place in which a program is started."""

    # descriptors of its standard output, and of its standard error if that is apart
    outputs: Sequence[int]
    # process group to join if it still exists; else a new one
    process_group: int
    # pid of its supervisor; the program is killed when that one is
    supervisor: int
    # groups to enter, in this order
    groups: tuple[ControlGroup, ...]


def become_subreaper() -> None:
    """Make this process the parent of all orphans among its descendants.

    Raises: OSError: the kernel lacks this (before 3.4).
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def become(launch: Launch, berth: Berth, report: int) -> NoReturn:
    """Replace this process by the program; call it in a forked child of the supervisor.

    Args:
        report: pipe, at its end when the program was executed; else it gets the reason for `read_report`.
    """
    stage = Stage.GROUP
    try:
        # a signal that comes now must not write into a descriptor that has been reused
        signal.set_wakeup_fd(-1)
        for group in berth.groups:
            group.enter()
        _join(berth.process_group)
        # caught signals fall back to their default action by themselves
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        report = _arrange(launch, berth, report)
        stage = Stage.USER
        if launch.account is not None:
            _give_pipes(launch.account, os.fstat(report).st_dev)
            _leave_keyring(launch.account)
            _become_user(launch.account)
        # after the change of user, which resets it
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != berth.supervisor:
            os._exit(_NOT_EXECUTED)
        stage = Stage.PRELUDE
        launch.prelude.run()
        stage = Stage.EXEC
        os.execvpe(launch.argv[0], list(launch.argv), dict(launch.env))
    except OSError as error:
        report_failure(report, stage, error)
    except (ValueError, OverflowError) as error:
        # a zero byte in a word or a variable, or a lone surrogate
        report_failure(report, stage, OSError(errno.EINVAL, str(error)))
    finally:
        os._exit(_NOT_EXECUTED)


def close_all_but(kept: frozenset[int]) -> None:
    """Close all open descriptors but these. Raises: OSError: /proc is missing."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            # the descriptor of the listed folder is closed already
            with contextlib.suppress(OSError):
                os.close(int(name))


def read_report(content: bytes) -> NotStarted | None:
    """Read the report of `become`; None: the program was executed."""
    if not content:
        return None
    stage, number, text, filename = orjson.loads(content)
    return NotStarted(Stage(stage), OSError(number, text, filename))


def report_failure(report: int, stage: Stage, error: OSError) -> None:
    """Write into the pipe `report` that the program did not start, for `read_report`."""
    filename = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
    words = [stage.value, error.errno or errno.EINVAL, error.strerror or str(error), filename]
    os.write(report, orjson.dumps([_clean(word) for word in words]))


def _clean(word: str | int | None) -> str | int | None:
    return word.encode(errors="replace").decode() if isinstance(word, str) else word


def _join(process_group: int) -> None:
    try:
        os.setpgid(0, process_group)
    except OSError:
        # the last process of that group has ended
        os.setpgid(0, 0)


def _arrange(launch: Launch, berth: Berth, report: int) -> int:
    """Set up standard input, output and error, and the umask; close all else that the start does not need.

    Returns: the descriptor for the report.
    """
    empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    # duplicates above the three standard descriptors
    given, output, error = map(_above, (empty if launch.stdin is None else launch.stdin, *_both(berth.outputs)))
    for number, fd in enumerate((given, output, error)):
        os.dup2(fd, number)
    report = _above(report)
    close_all_but(frozenset({0, 1, 2, report}) | launch.prelude.fds)
    os.umask(launch.umask)
    return report


def _both(outputs: Sequence[int]) -> tuple[int, int]:
    return outputs[0], outputs[-1]


def _above(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _give_pipes(account: UnixAccount, device: int) -> None:
    """Give the user the pipes of output and error, so that the program can open them again, as /dev/stderr.

    Args: device: of pipes without a name; a pipe that somebody has made in a folder stays his.
    """
    for number in (1, 2):
        status = os.fstat(number)
        if stat.S_ISFIFO(status.st_mode) and status.st_dev == device:
            with contextlib.suppress(PermissionError):
                os.fchown(number, account.uid, account.gid)


def _leave_keyring(account: UnixAccount) -> None:
    """Take a session keyring of our own: who has ours may read the keys that others have put there.

    It is made while we are root, as the user may have used up the keys that the kernel allows him.
    Raises: OSError: it cannot be made.
    """
    machine = os.uname().machine
    if machine not in _KEYCTL or sys.maxsize < 2**32:
        return
    call = _KEYCTL[machine]
    if _libc.syscall(call, _KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        number = ctypes.get_errno()
        if number not in _NO_KEYS:
            raise OSError(number, f"no session keyring for the command: {os.strerror(number)}")
        return
    # refused if he has used them up: then it stays root's, and he has it all the same
    _libc.syscall(call, _KEYCTL_CHOWN, _KEY_SPEC_SESSION_KEYRING, account.uid, account.gid)


def _become_user(account: UnixAccount) -> None:
    os.setgroups(account.groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} is refused")
