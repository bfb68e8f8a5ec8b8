"""Writes down what all processes of a run change on disk, and when clients are answered, in one order.

A lock is held from before each call until its line is in the log: so the order of the log is that of the calls. An
answer is written down before it is sent. What changes the disk and is not understood is written down as *escaped*.
"""

import contextlib
import fcntl
import os
import pickle
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.reliability.powercuts.disk import Operation
from tests.reliability.syscalls import SystemCall, bare_open, bare_write, write_modes

_LENGTH: Final = struct.Struct("I")
_END_OF_MESSAGE: Final = b"\x03"
_CREDENTIALS: Final = struct.Struct("3i")


class RecordingGate:
    """The gate of a process of the run.

    Args:
        root: the installation; its data folder is what is recorded.
        client: the pid of the client whose answers count.
    """

    def __init__(self, root: Path, role: str, log: Path, tally: Path, client: int) -> None:
        self.root = f"{root}/lib"
        self._role = role
        self._client = client
        self._path = log
        self._tally = tally
        # while this process has its turn
        self._log = -1
        self._threads = threading.Lock()
        os.register_at_fork(after_in_child=self._become_child)

    def passes(self, call: SystemCall) -> Any:
        if call.name == "fork" or call.path.startswith("socket:"):
            return call.make()
        if call.name == "send":
            return self._send(call)
        if call.function == "io.open":
            if write_modes(call):
                with self._turn():
                    self._note(Operation("escaped", path=f"open() {call.path}"))
            return call.make()
        with self._turn():
            return getattr(self, f"_{call.name}")(call)

    def _open(self, call: SystemCall) -> int:
        flags = call.args[1] if len(call.args) > 1 else call.kwargs.get("flags", 0)
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(call.path)
        fd: int = call.make()
        if is_new:
            self._note(Operation("create", path=call.path, node=os.fstat(fd).st_ino))
        elif flags & os.O_TRUNC:
            self._note(Operation("truncate", node=os.fstat(fd).st_ino))
        return fd

    def _write(self, call: SystemCall) -> int:
        fd, data = call.args[0], bytes(call.args[1])
        written: int = call.make()
        offset = call.args[2] if call.function == "pwrite" else os.lseek(fd, 0, os.SEEK_CUR) - written
        synced = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC)
        node = os.fstat(fd).st_ino
        self._note(Operation("write", call.path, node=node, offset=offset, content=data[:written], synced=synced))
        return written

    def _fsync(self, call: SystemCall) -> None:
        call.make()
        self._note(Operation("sync", path=call.path, node=os.fstat(call.args[0]).st_ino))

    def _rename(self, call: SystemCall) -> None:
        call.make()
        self._note(Operation("rename", path=call.path, target=os.path.abspath(os.fsdecode(call.args[1]))))

    def _link(self, call: SystemCall) -> None:
        call.make()
        if call.function == "symlink":
            self._note(Operation("escaped", path=f"symlink() {call.path}"))
        else:
            self._note(Operation("link", path=call.path, target=os.path.abspath(os.fsdecode(call.args[1]))))

    def _unlink(self, call: SystemCall) -> None:
        call.make()
        self._note(Operation("unlink", path=call.path))

    def _mkdir(self, call: SystemCall) -> None:
        call.make()
        self._note(Operation("mkdir", path=call.path))

    def _rmdir(self, call: SystemCall) -> None:
        call.make()
        self._note(Operation("rmdir", path=call.path))

    def _truncate(self, call: SystemCall) -> None:
        call.make()
        status = os.stat(call.path)
        if call.function == "posix_fallocate":
            # room made ahead: zeros, where there was nothing
            self._note(Operation("truncate", node=status.st_ino, offset=status.st_size))
        else:
            self._note(Operation("truncate", node=status.st_ino, offset=call.args[1]))

    def _send(self, call: SystemCall) -> Any:
        sock, data = call.args[0], call.args[1]
        if call.function == "sendmsg" or not self._is_to_client(sock):
            return call.make()
        with self._turn():
            place = os.lseek(self._log, 0, os.SEEK_END)
            self._note(Operation("answer"), times=bytes(data).count(_END_OF_MESSAGE))
            try:
                sent = call.make()
            except BaseException:
                os.ftruncate(self._log, place)
                raise
            if sent is not None and bytes(data)[:sent].count(_END_OF_MESSAGE) != bytes(data).count(_END_OF_MESSAGE):
                os.ftruncate(self._log, place)
                self._note(Operation("answer"), times=bytes(data)[:sent].count(_END_OF_MESSAGE))
            return sent

    def _is_to_client(self, sock: Any) -> bool:
        import socket

        with contextlib.suppress(OSError):
            peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            return bool(_CREDENTIALS.unpack(peer)[0] == self._client)
        return False

    def _note(self, operation: Operation, times: int = 1) -> None:
        size = os.stat(self._tally).st_size
        fields = (*_fields(operation), size, self._role)
        line = pickle.dumps(fields)
        bare_write(self._log, (_LENGTH.pack(len(line)) + line) * times)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        with self._threads:
            # opened each time: a supervisor closes what it has inherited
            self._log = bare_open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(self._log, fcntl.LOCK_EX)
                yield
            finally:
                os.close(self._log)

    def _become_child(self) -> None:
        self._threads = threading.Lock()
        self._role = "job" if self._role == "forkserver" else "command"


@contextlib.contextmanager
def between_operations(log: Path) -> Iterator[None]:
    """While nobody is between a call and its line in the log: the moment to kill a process of the run."""
    fd = bare_open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def read_log(path: Path) -> list[Operation]:
    content = path.read_bytes()
    found, at = [], 0
    while at < len(content):
        (size,) = _LENGTH.unpack_from(content, at)
        fields: tuple[Any, ...] = pickle.loads(content[at + _LENGTH.size : at + _LENGTH.size + size])
        found.append(Operation(*fields))
        at += _LENGTH.size + size
    return found


def _fields(operation: Operation) -> tuple[Any, ...]:
    o = operation
    return (o.what, o.path, o.target, o.node, o.offset, o.content, o.synced)
