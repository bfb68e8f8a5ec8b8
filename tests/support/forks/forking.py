"""Programs forked from a process that has loaded their code: the start of an interpreter takes a third of a second.

Each test process has one such process of a kind, made by its first use. It holds no state but the loaded modules: a
program gets its own environment, arguments and descriptors, and is otherwise what `python -m` makes.

    python -m tests.support.forks.forking DOOR MODULE    # the process: load what MODULE's `load()` loads, then fork
"""

import array
import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Never

MOST_BYTES: Final = 2**20
_MOST_DESCRIPTORS: Final = 2**20
# what an interpreter ends with that cannot write out what it holds back
_UNWRITTEN: Final = 120


class _Forks:
    """The process."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        # pid -> pipe for the exit code
        self._children: dict[int, int] = {}

    def run(self) -> None:
        """Fork programs until the test process is gone."""
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
        data, rights, _, _ = self._door.recvmsg(MOST_BYTES, socket.CMSG_SPACE(4 * 4))
        if not data:
            return False
        (_, _, packed) = rights[0]
        request = json.loads(data)
        status, *streams = array.array("i", packed)
        _load(request["module"])
        pid = os.fork()
        if pid == 0:
            _become(request, dict(zip(request["streams"], streams, strict=True)))
        for descriptor in streams:
            os.close(descriptor)
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


def _load(module: str) -> None:
    """Load a program's code here at its first use, so that no child has to."""
    if module not in sys.modules:
        importlib.import_module(module)
        gc.collect()
        gc.freeze()


def _become(request: Mapping[str, Any], streams: Mapping[int, int]) -> Never:
    """Be the program; never returns."""
    code: object = 1
    try:
        for number, descriptor in streams.items():
            os.dup2(descriptor, number)
        os.closerange(3, _MOST_DESCRIPTORS)
        _open_streams(streams)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request["env"])
        time.tzset()
        os.chdir(request["cwd"])
        resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["limits"]))
        sys.argv = request["argv"]
        # a program may execute itself again
        sys.orig_argv = request["command"]
        gc.enable()
        importlib.import_module(request["module"]).main()
        code = 0
    except SystemExit as end:
        code = end.code
        if not isinstance(code, int | None):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(_write_out(int(code or 0) if isinstance(code, int | None) else 1))


def _open_streams(numbers: Sequence[int] | Mapping[int, int]) -> None:
    """Replace standard streams as an interpreter makes them: errors are written line by line, whatever they go to."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if number not in numbers:
            continue
        if number == 0:
            stream = open(0, closefd=False)  # noqa: SIM115  # it lives as long as the process
        else:
            is_line = number == 2 or os.isatty(number)
            errors = "backslashreplace" if number == 2 else None
            stream = open(number, "w", 1 if is_line else -1, errors=errors, closefd=False)  # noqa: SIM115  # the same
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_out(code: int) -> int:
    """Write what is held back; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or _UNWRITTEN
    return code


def main() -> None:
    door, loader = sys.argv[1:]
    importlib.import_module(loader).load()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(door)) as sock:
        _Forks(sock).run()


if __name__ == "__main__":
    main()
