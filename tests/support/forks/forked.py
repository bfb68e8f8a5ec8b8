"""The test's side of programs that are forked from a process that has loaded their code."""

import array
import atexit
import contextlib
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.forks import forking

_CHECKOUT: Final = Path(__file__).resolve().parents[3]


class Forked:
    """A program, to be used like a `subprocess.Popen`. Args: status: pipe with its exit code, once it has ended."""

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

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
            text = os.read(self._status, 64)
            assert text, f"the process that forks programs has died; {self.args} has process {self.pid}"
            os.close(self._status)
            self.returncode = int(text)
        return self.returncode


class Forker:
    """A process that forks programs, and ends with this process.

    Args:
        loader: the module whose `load()` loads the programs' code there.
        options: of the interpreter.
    """

    def __init__(self, loader: str, *options: str) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, forking.MOST_BYTES)
        with theirs:
            words = [sys.executable, "-P", *options, "-m", forking.__name__, str(theirs.fileno()), loader]
            environment = {**os.environ, "PYTHONPATH": str(_CHECKOUT)}
            self._process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()])
        atexit.register(self._end)

    def _end(self) -> None:
        self._door.close()
        self._process.wait()

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        command: Sequence[str],
        env: Mapping[str, str],
        streams: Mapping[int, int],
        *,
        cwd: Path | None = None,
        limit: int | None = None,
    ) -> Forked:
        """Run the `main` of a module in a process of its own.

        Args:
            arguments: with the name of the program.
            command: what would start it otherwise.
            streams: its standard streams' numbers, with ours; the others are those of the tests.
            cwd: its working folder, if not ours.
            limit: of descriptors; None: as the test has.
        """
        limits = resource.getrlimit(resource.RLIMIT_NOFILE) if limit is None else (limit, limit)
        request: dict[str, object] = {
            **{"module": module, "argv": [*arguments], "command": [*command], "env": {**env}, "limits": limits},
            **{"streams": [*streams], "cwd": str(cwd or Path.cwd())},
        }
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            descriptors = array.array("i", [writer, *streams.values()])
            self._door.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        finally:
            os.close(writer)
        return Forked(int(self._door.recv(64)), reader, module)
