"""Commands that the launcher has started: listed and ended, by the livelock that their supervisors hold.

It is for the daemons that kill, and imports nothing of how commands are started; `protocol.launcher` has that, and the
rules of a connection.

Source: DESIGN sections 5 and 16.
"""

import enum
import errno
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from common.errors import GantryError, Unavailable
from common.system.log import get_log
from common.system.processes import EndLaunched, Process, find_process
from protocol.envelope import read_reply, request_bytes
from protocol.framing import Framer, pack
from protocol.messages import AnyRequest, Request, positional, structure_reply
from protocol.unixsocket import dial, pauses

NAME: Final = "the launcher"
# bytes of a request; the command of a job has at most a megabyte by the default settings
MOST_BYTES: Final = 64 * 2**20
# seconds of a request to end commands
_END_S: Final = 10.0
_CHUNK: Final = 64 * 2**10
_log = get_log(__name__)


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


def running_commands(path: Path, livelock: str, how: End = End.NO) -> tuple[Running, ...]:
    """The commands of the launcher whose supervisors hold this livelock; they are ended as `how` says.

    Never raises: without a launcher there are none, and a launcher that cannot be asked is told in the log.
    """
    try:
        return _running(path, livelock, how)
    except (OSError, GantryError) as error:
        _log.warning("launcher.not_asked", reason=error, effect="commands of other users are not found")
        return ()


def find_killer(path: Path) -> EndLaunched | None:
    """The function that kills the commands of a job with another user's rights; None: there is no launcher here."""
    if not path.exists():
        return None

    def end(livelock: str) -> frozenset[Process]:
        try:
            running = _running(path, livelock, End.KILL)
        except GantryError as error:
            raise OSError(errno.EAGAIN, error.message) from error
        found = {Process(each.pid, each.started_at) for each in running}
        return frozenset(
            found.union(process for each in running for pid in each.pids if (process := find_process(pid)))
        )

    return end


def supervisors_of(running: Sequence[Running]) -> frozenset[Process]:
    return frozenset(Process(each.pid, each.started_at) for each in running)


def _running(path: Path, livelock: str, how: End) -> tuple[Running, ...]:
    """Raises: GantryError: the launcher does not answer. OSError."""
    try:
        status = os.stat(livelock)
    except FileNotFoundError:
        # the job has ended
        return ()
    if not path.exists():
        return ()
    request = EndCommands(status.st_dev, status.st_ino, how)
    with dial_launcher(path, _END_S) as sock:
        sock.settimeout(_END_S)
        sock.sendall(packed(request))
        return structure_reply(EndCommands, reply_to(sock, request))


def dial_launcher(path: Path, within_s: float) -> socket.socket:
    """Connect to the launcher, which may be starting. Raises: Unavailable, Denied."""
    deadline = time.monotonic() + within_s
    for pause in pauses():
        try:
            return dial(path, NAME)
        except Unavailable:
            if time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause)
    raise AssertionError("pauses() has no end")


def packed(request: AnyRequest) -> bytes:
    """The bytes of a request."""
    return pack(request_bytes(request.METHOD, positional(request)))


def reply_to(sock: socket.socket, request: AnyRequest) -> object:
    """Wait for the reply. Raises: RemoteError: it is refused. Unavailable: the connection ended. OSError."""
    framer = Framer(MOST_BYTES)
    while data := sock.recv(_CHUNK):
        for payload in framer.feed(data):
            return read_reply(payload)
    raise Unavailable(f"{NAME} has ended before it replied to {request.METHOD}; nothing was started")
