"""One fault at one point of a run: which process, which call, the how many-th; and the board on which all count.

The board is a file that all processes of a run have mapped: how often each role has made each call since it was
*armed*, and whether the fault has struck. A process that counts holds a lock on it, so the n-th call is one call.
"""

import errno
import fcntl
import mmap
import os
import signal
import struct
import threading
import time
from pathlib import Path
from typing import Any, Final, Self

import attrs

from tests.reliability.syscalls import CALLS, PAIR, SystemCall, bare_open, bare_write

# who makes a call; what the fork server forks is a job, what others fork works for a command
ROLES: Final = ("luxid", "wconfd", "forkserver", "job", "command")
KILLS: Final = ("kill", "kill-after")
ERRORS: Final = {
    "EAGAIN": errno.EAGAIN,
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EMFILE": errno.EMFILE,
    "ECONNRESET": errno.ECONNRESET,
}
DELAY: Final = "delay"
_DELAY_S: Final = 0.15
# which faults make sense for which call
FAULTS_OF: Final = {
    "open": (*KILLS, "EIO", "ENOSPC", "EMFILE", DELAY),
    "write": (*KILLS, "EIO", "ENOSPC", DELAY),
    "fsync": (*KILLS, "EIO", "ENOSPC", DELAY),
    "rename": (*KILLS, "EIO", "ENOSPC", DELAY),
    "unlink": (*KILLS, "EIO", DELAY),
    "link": (*KILLS, "EIO", "ENOSPC"),
    "mkdir": (*KILLS, "EIO", "ENOSPC"),
    "rmdir": (*KILLS, "EIO"),
    "truncate": (*KILLS, "EIO"),
    "send": (*KILLS, "ECONNRESET", DELAY),
    "fork": (*KILLS, "EAGAIN", DELAY),
}
_SLOT: Final = struct.Struct("I")
_ARMED: Final = 0
_STRUCK: Final = 4
_FIRST: Final = 8
_SIZE: Final = _FIRST + _SLOT.size * len(ROLES) * len(CALLS)


@attrs.frozen
class Point:
    """The number-th call of this name by processes of this role, since the board was armed."""

    role: str
    call: str
    number: int

    def __str__(self) -> str:
        return f"{self.role}:{self.call}:{self.number}"

    @classmethod
    def read(cls, text: str) -> Self:
        role, call, number = text.split(":")
        return cls(role, call, int(number))


@attrs.frozen
class Fault:
    point: Point
    # one of FAULTS_OF
    kind: str

    def __str__(self) -> str:
        return f"{self.point}:{self.kind}"

    @property
    def hurts_a_job(self) -> bool:
        """Whether a job may end in error for it."""
        is_fatal = self.kind in KILLS or (self.point.call == "fork" and self.kind != DELAY)
        return is_fatal and self.point.role in ("job", "command")

    @classmethod
    def read(cls, text: str) -> Self:
        point, _, kind = text.rpartition(":")
        return cls(Point.read(point), kind)


class Board:
    """The counters of a run, shared by its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(_SIZE))
        fd = bare_open(path, os.O_RDWR | os.O_CLOEXEC)
        self._slots = mmap.mmap(fd, _SIZE)
        os.close(fd)
        self._threads = threading.Lock()

    def close(self) -> None:
        self._slots.close()

    def arm(self) -> None:
        """Count from now on."""
        self._write(_ARMED, 1)

    def disarm(self) -> None:
        self._write(_ARMED, 0)

    @property
    def has_struck(self) -> bool:
        return bool(self._read(_STRUCK))

    def count(self, role: str, call: str, until: Point | None) -> bool:
        """Count a call; true for the one at the point, once."""
        with self._threads:
            # opened each time: a supervisor closes what it has inherited
            fd = bare_open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX)
                if not self._read(_ARMED):
                    return False
                place = _place(role, call)
                number = self._read(place) + 1
                self._write(place, number)
                if until is None or self._read(_STRUCK) or (role, call, number) != attrs.astuple(until):
                    return False
                self._write(_STRUCK, 1)
                return True
            finally:
                os.close(fd)

    def points(self) -> dict[tuple[str, str], int]:
        """(role, call) -> how often."""
        return {(role, call): self._read(_place(role, call)) for role in ROLES for call in CALLS}

    def begin_anew(self) -> None:
        """In a forked child, whose parent's threads may have held the lock."""
        self._threads = threading.Lock()

    def _read(self, place: int) -> int:
        return int(_SLOT.unpack_from(self._slots, place)[0])

    def _write(self, place: int, value: int) -> None:
        _SLOT.pack_into(self._slots, place, value)


def _place(role: str, call: str) -> int:
    return _FIRST + _SLOT.size * (ROLES.index(role) * len(CALLS) + CALLS.index(call))


class FaultGate:
    """Counts the calls of a process, and lets the fault strike.

    Args:
        note: a file that tells where it struck.
    """

    def __init__(self, root: Path, role: str, board: Board, fault: Fault | None, note: Path) -> None:
        self.root = f"{root}/"
        self._logs = f"{root}/log/"
        self._role = role
        self._board = board
        self._fault = fault
        self._note = note
        os.register_at_fork(after_in_child=self._become_child)

    def passes(self, call: SystemCall) -> Any:
        if call.path.startswith(self._logs) or self._is_bell_of_trio(call):
            return call.make()
        point = self._fault.point if self._fault else None
        if not self._board.count(self._role, call.name, point):
            return call.make()
        assert self._fault is not None
        self._tell(call)
        return _strike(self._fault.kind, call)

    def _is_bell_of_trio(self, call: SystemCall) -> bool:
        """By such a pair a thread wakes the event loop: no failure of it is possible, and none would be survived."""
        return self._role in ("luxid", "wconfd") and call.path == f"socket {PAIR}"

    def _tell(self, call: SystemCall) -> None:
        fd = bare_open(self._note, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        bare_write(fd, f"{call.function} {call.path} pid={os.getpid()}".encode())
        os.close(fd)

    def _become_child(self) -> None:
        self._role = "job" if self._role == "forkserver" else "command"
        self._board.begin_anew()


def _strike(kind: str, call: SystemCall) -> Any:
    if kind == DELAY:
        time.sleep(_DELAY_S)
        return call.make()
    if kind in KILLS:
        if kind == "kill-after" and call.make() == 0 and call.name == "fork":
            # the child lives on
            return 0
        os.kill(os.getpid(), signal.SIGKILL)
        # a thread may see a few instructions more
        time.sleep(60)
    number = ERRORS[kind]
    raise OSError(number, os.strerror(number), call.path)
