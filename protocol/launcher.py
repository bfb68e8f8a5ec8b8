"""The launcher's messages, and its clients: job processes, runners of nodes, and the daemons that kill commands.

The launcher runs as root and starts commands as the users whose jobs they are; everything else of Gantry runs as an
ordinary user. A connection carries one request. With `startCommand` go the descriptors that the supervisor and the
command use, in the order of `Descriptors`; so the launcher opens no path of its callers. The reply comes before the
command is started, from the process that becomes its supervisor: if the connection ends without a reply, nothing was
started. Afterwards the connection belongs to the supervisor: a byte requests the end of the command. The end of the
connection requests nothing, since a command outlives its job process.

A running command is named by device and inode of the livelock that its supervisor holds, as `endCommands` does.

Source: DESIGN sections 5, 7, 13 and 16; unix(7), SCM_RIGHTS.
"""

import contextlib
import enum
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.commands.cgroups import Group
from common.commands.execution import Launch
from common.commands.holding import Way
from common.commands.limits import Limited
from common.commands.localcommand import MakeStarter
from common.commands.spec import Leave
from common.commands.supervision import Terms
from common.commands.supervisor import StartSupervisor, Supervisor
from common.errors import GantryError, InvalidRequest, Unavailable
from common.system.livelock import Livelock
from common.system.log import get_log
from protocol.calling import read_reply, request_bytes
from protocol.dial import dial, pauses
from protocol.framing import Framer, pack
from protocol.messages import AnyRequest, Request, positional, structure_reply

# bytes of a request; the command of a job has at most a megabyte by the default settings
MOST_BYTES: Final = 64 * 2**20
_NAME: Final = "the launcher"
# seconds to wait for a launcher that is being restarted
_CONNECT_S: Final = 30.0
# seconds of a request to end commands
_END_S: Final = 10.0
_CHUNK: Final = 64 * 2**10
_log = get_log(__name__)


@attrs.frozen(kw_only=True)
class LaunchedCommand:
    """A program to start, and the instructions for its supervisor."""

    argv: tuple[str, ...]
    # whole environment
    env: Mapping[str, str]
    cwd: str | None
    stdin_path: str | None
    # number of the kernel's limit, as text -> (soft, hard)
    limits: Mapping[str, tuple[int, ...]]
    niceness: int
    umask: int
    job_id: int
    title: str
    leave: Leave
    timeout_s: float | None
    grace_s: float
    group_name: str
    memory_bytes: int | None
    cpus: float | None
    # whether these descriptors come along
    has_stdin: bool
    has_errors: bool


@attrs.frozen
class Started:
    """The supervisor of a command that is being started."""

    pid: int
    # control group of the command
    way: Way
    folder: str
    # controllers that limit all its processes together
    limited: tuple[str, ...]


@attrs.frozen
class StartCommand(Request[Started]):
    """Start a command as `user`, for a job of `submitter`; both are logins."""

    METHOD = "startCommand"
    submitter: str
    user: str
    command: LaunchedCommand


class End(enum.Enum):
    """What is to happen to commands."""

    # nothing: they are only listed
    NO = "no"
    # their supervisors get SIGTERM
    ASK = "ask"
    # all their processes get SIGKILL; a supervisor only when none of them is left
    KILL = "kill"


@attrs.frozen
class Running:
    """A command that runs: its supervisor, and its processes."""

    pid: int
    started_at: int
    pids: tuple[int, ...]


@attrs.frozen
class EndCommands(Request[tuple[Running, ...]]):
    """List the commands whose supervisors hold a livelock, and end them; the reply is as of before."""

    METHOD = "endCommands"
    device: int
    inode: int
    how: End = End.NO


@attrs.frozen
class Descriptors:
    """The descriptors that go with `startCommand`."""

    # pipe for the supervisor's reports
    status: int
    livelock: int
    # pipe for a failure of the prelude
    prelude: tuple[int, int]
    # standard output, and standard error if it is apart
    outputs: tuple[int, ...]
    stdin: int | None

    @property
    def in_order(self) -> list[int]:
        return [self.status, self.livelock, *self.prelude, *self.outputs, *([] if self.stdin is None else [self.stdin])]

    @classmethod
    def of(cls, command: LaunchedCommand, fds: Sequence[int]) -> "Descriptors":
        """Assign received descriptors. Raises: InvalidRequest: there are more or fewer than the request needs."""
        outputs = 2 if command.has_errors else 1
        wanted = 4 + outputs + command.has_stdin
        if len(fds) != wanted:
            raise InvalidRequest(f"{StartCommand.METHOD} needs {wanted} descriptors, got {len(fds)}")
        stdin = fds[-1] if command.has_stdin else None
        return cls(fds[0], fds[1], (fds[2], fds[3]), tuple(fds[4 : 4 + outputs]), stdin)


@attrs.frozen
class LaunchedSupervisor(Supervisor):
    """A supervisor that runs as root: it takes requests through its connection, and is not our child."""

    connection: socket.socket

    def stop(self) -> None:
        """Request the end of the command and of all that it started."""
        with contextlib.suppress(OSError):
            self.connection.send(b"\n")

    def reap(self) -> None:
        """Close the connection."""
        self.connection.close()


def find_launcher(path: Path) -> MakeStarter | None:
    """The function that makes starters of supervisors by the launcher; None: there is no launcher here.

    Args: path: its socket, `launcher_socket` of the paths.
    """
    if not path.exists():
        return None

    def make(submitter: str, user: str, livelock: Livelock) -> StartSupervisor:
        def start(launch: Launch, terms: Terms, outputs: Sequence[int]) -> Supervisor:
            return _start(
                path, StartCommand(submitter, user, _command(launch, terms, outputs)), launch, outputs, livelock
            )

        return start

    return make


def running_commands(path: Path, livelock: str, how: End = End.NO) -> tuple[Running, ...]:
    """The commands of the launcher whose supervisors hold this livelock; they are ended as `how` says.

    Never raises: without a launcher there are none, and a launcher that cannot be asked is told in the log.
    """
    try:
        if not path.exists():
            return ()
        status = os.stat(livelock)
        request = EndCommands(status.st_dev, status.st_ino, how)
        with _dialled(path, _END_S) as sock:
            sock.settimeout(_END_S)
            sock.sendall(_packed(request))
            return structure_reply(EndCommands, _reply(sock, request))
    except FileNotFoundError:
        return ()
    except (OSError, GantryError) as error:
        _log.warning("launcher.not_asked", reason=error, effect="commands of other users are not found")
        return ()


def _command(launch: Launch, terms: Terms, outputs: Sequence[int]) -> LaunchedCommand:
    prelude = launch.prelude
    return LaunchedCommand(
        argv=tuple(launch.argv),
        env=launch.env,
        cwd=prelude.cwd,
        stdin_path=prelude.stdin_path,
        limits={str(number): pair for number, pair in prelude.limits.items()},
        niceness=prelude.niceness,
        umask=launch.umask,
        job_id=terms.job_id,
        title=terms.title,
        leave=terms.leave,
        timeout_s=terms.timeout_s,
        grace_s=terms.grace_s,
        group_name=terms.group_name,
        memory_bytes=terms.wanted.memory_bytes,
        cpus=terms.wanted.cpus,
        has_stdin=launch.stdin is not None,
        has_errors=len(outputs) > 1,
    )


def _start(
    path: Path, request: StartCommand, launch: Launch, outputs: Sequence[int], livelock: Livelock
) -> LaunchedSupervisor:
    """Raises: GantryError: it is refused, or there is no launcher at the moment. OSError: no pipe is available."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    sock: socket.socket | None = None
    try:
        sock = _dialled(path, _CONNECT_S)
        # no limit: what was asked for must not begin after it was given up
        sock.settimeout(None)
        fds = Descriptors(writer, livelock.fd, launch.prelude.pipe, tuple(outputs), launch.stdin).in_order
        payload = _packed(request)
        sent = socket.send_fds(sock, [payload], fds)
        sock.sendall(payload[sent:])
        started = structure_reply(StartCommand, _reply(sock, request))
    except BaseException as error:
        os.close(reader)
        if sock is not None:
            sock.close()
        if isinstance(error, OSError):
            raise Unavailable(
                f"{_NAME} at {path} does not answer: {error.strerror or error}; nothing was started"
            ) from error
        raise
    finally:
        os.close(writer)
    sock.setblocking(False)
    group = Group(started.way, started.folder)
    return LaunchedSupervisor(started.pid, reader, group, Limited(dict.fromkeys(started.limited, group)), sock)


def _dialled(path: Path, within_s: float) -> socket.socket:
    """Raises: Unavailable, Denied."""
    deadline = time.monotonic() + within_s
    for pause in pauses():
        try:
            return dial(path, _NAME)
        except Unavailable:
            if time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause)
    raise AssertionError("pauses() has no end")


def _packed(request: AnyRequest) -> bytes:
    return pack(request_bytes(request.METHOD, positional(request)))


def _reply(sock: socket.socket, request: AnyRequest) -> object:
    """Raises: RemoteError: it is refused. Unavailable: the connection ended. OSError."""
    framer = Framer(MOST_BYTES)
    while data := sock.recv(_CHUNK):
        for payload in framer.feed(data):
            return read_reply(payload)
    raise Unavailable(f"{_NAME} has ended before it replied to {request.METHOD}; nothing was started")
