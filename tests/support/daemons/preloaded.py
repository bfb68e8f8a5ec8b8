"""Daemons forked from a process that has loaded the code of all daemons: a start of an interpreter takes half a second.

daemon = start_daemon("daemons.luxid.main", ["--root", str(root)], env, errors, limit=None)
daemon.wait(60)

Each test process has one such process, made by its first start of a daemon. It holds no state but the loaded modules:
a daemon gets its own environment, arguments and descriptors, and is otherwise what `python -m` makes.
"""

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Never

from common.daemons import start_order

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
_MOST_BYTES: Final = 2**20
_MOST_DESCRIPTORS: Final = 2**20


class ForkedDaemon:
    """A daemon, to be used like a `subprocess.Popen`. Args: status: pipe with its exit code, once it has ended."""

    def __init__(self, pid: int, status: int, name: str) -> None:
        self.pid = pid
        self.args = name
        # as in `subprocess`: negative for a signal
        self.returncode: int | None = None
        self._status = status

    def __del__(self) -> None:
        if self.returncode is None:
            os.close(self._status)

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises: subprocess.TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
            text = os.read(self._status, 64)
            assert text, f"the process that forks daemons has died; {self.args} has process {self.pid}"
            os.close(self._status)
            self.returncode = int(text)
        return self.returncode


def start_daemon(
    module: str, arguments: Sequence[str], env: Mapping[str, str], errors: int, *, limit: int | None = None
) -> ForkedDaemon:
    """Run the `main` of a module in a process of its own.

    Args:
        errors: descriptor of its standard error.
        limit: of descriptors; None: as the test has.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE) if limit is None else (limit, limit)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    request = json.dumps({"module": module, "arguments": list(arguments), "env": dict(env), "limits": limits})
    door = _preloaded()
    try:
        descriptors = array.array("i", [errors, writer])
        door.sendmsg([request.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    finally:
        os.close(writer)
    return ForkedDaemon(int(door.recv(64)), reader, module)


@cache
def _preloaded() -> socket.socket:
    """The door of this process's own preloaded process, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": str(_CHECKOUT)},
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class _Forks:
    """The preloaded process."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        # pid -> pipe for the exit code
        self._children: dict[int, int] = {}

    def run(self) -> None:
        """Fork daemons until the test process is gone."""
        wakeup, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        door = self._door.fileno()
        while True:
            ready = select.select([door, wakeup], [], [])[0]
            if wakeup in ready:
                os.read(wakeup, 4096)
                self._reap()
            if door in ready and not self._answer():
                return

    def _answer(self) -> bool:
        data, rights, _, _ = self._door.recvmsg(_MOST_BYTES, socket.CMSG_SPACE(8))
        if not data:
            return False
        (_, _, packed) = rights[0]
        errors, status = array.array("i", packed)
        pid = os.fork()
        if pid == 0:
            _become(json.loads(data), errors)
        os.close(errors)
        self._children[pid] = status
        self._door.send(str(pid).encode())
        return True

    def _reap(self) -> None:
        for pid in tuple(self._children):
            if (found := os.waitpid(pid, os.WNOHANG))[0]:
                status = self._children.pop(pid)
                # the test may have lost its interest
                with contextlib.suppress(BrokenPipeError):
                    os.write(status, str(os.waitstatus_to_exitcode(found[1])).encode())
                os.close(status)


def _become(request: Mapping[str, Any], errors: int) -> Never:
    """Be the daemon that is asked for; never returns."""
    code: object = 1
    try:
        os.dup2(errors, 2)
        os.closerange(3, _MOST_DESCRIPTORS)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["limits"]))
        sys.argv = [request["module"], *request["arguments"]]
        # a daemon may execute itself again
        sys.orig_argv = [sys.executable, "-P", "-m", *sys.argv]
        gc.enable()
        importlib.import_module(request["module"]).main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int | None) else 1
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(int(code or 0) if isinstance(code, int | None) else 1)


def main() -> None:
    for daemon in start_order():
        importlib.import_module(daemon.module)
    importlib.import_module("daemons.jobproc.forkserver.warmup").warm_up()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _Forks(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
