"""The launcher's messages, and its clients: job processes, runners of nodes, and the daemons that kill commands.

The launcher runs as root and starts commands as the users whose jobs they are; everything else of Gantry runs as an
ordinary user. A connection carries one request. With `startCommand` go the descriptors that the supervisor and the
command use, in the order of `Descriptors`; so the launcher opens no path of its callers. The reply comes before the
command is started, from the process that becomes its supervisor: if the connection ends without a reply, nothing was
started. Afterwards the connection belongs to the supervisor: a byte requests the end of the command. The end of the
connection requests nothing, since a command outlives its job process.

A running command is named by device and inode of the livelock that its supervisor holds, as `endCommands` does
(`protocol.launched`).

Source: DESIGN sections 5, 7, 13 and 16; unix(7), SCM_RIGHTS.
"""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from common.commands.cgroups import ControlGroup, Limited, Way
from common.commands.execution import Launch
from common.commands.localcommand import MakeStarter
from common.commands.spec import Leave
from common.commands.supervision import SupervisorTerms
from common.commands.supervisor import StartSupervisor, Supervisor
from common.errors import InvalidRequest, Unavailable
from common.system.livelock import Livelock
from protocol.launched import NAME, dial_launcher, packed, reply_to
from protocol.messages import Request, structure_reply

# seconds to wait for a launcher that is being restarted
_CONNECT_S: Final = 30.0


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
class LaunchCommand(Request[Started]):
    """Start a command as `user`, for a job of `submitter`; both are logins."""

    METHOD = "startCommand"
    submitter: str
    user: str
    command: LaunchedCommand


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
            raise InvalidRequest(f"{LaunchCommand.METHOD} needs {wanted} descriptors, got {len(fds)}")
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
        def start(launch: Launch, terms: SupervisorTerms, outputs: Sequence[int]) -> Supervisor:
            return _start(
                path, LaunchCommand(submitter, user, _command(launch, terms, outputs)), launch, outputs, livelock
            )

        return start

    return make


def _command(launch: Launch, terms: SupervisorTerms, outputs: Sequence[int]) -> LaunchedCommand:
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
    path: Path, request: LaunchCommand, launch: Launch, outputs: Sequence[int], livelock: Livelock
) -> LaunchedSupervisor:
    """Raises: GantryError: it is refused, or there is no launcher at the moment. OSError: no pipe is available."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    sock: socket.socket | None = None
    try:
        sock = dial_launcher(path, _CONNECT_S)
        # no limit: what was asked for must not begin after it was given up
        sock.settimeout(None)
        fds = Descriptors(writer, livelock.fd, launch.prelude.pipe, tuple(outputs), launch.stdin).in_order
        payload = packed(request)
        sent = socket.send_fds(sock, [payload], fds)
        sock.sendall(payload[sent:])
        started = structure_reply(LaunchCommand, reply_to(sock, request))
    except BaseException as error:
        os.close(reader)
        if sock is not None:
            sock.close()
        if isinstance(error, OSError):
            raise Unavailable(
                f"{NAME} at {path} does not answer: {error.strerror or error}; nothing was started"
            ) from error
        raise
    finally:
        os.close(writer)
    sock.setblocking(False)
    group = ControlGroup(started.way, started.folder)
    return LaunchedSupervisor(started.pid, reader, group, Limited(dict.fromkeys(started.limited, group)), sock)
