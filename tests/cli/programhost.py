"""Many calls of our programs in a short time: forked from a process that has loaded their code.

with ProgramHost() as host:
    ended = host.run("gnt-group", "--root", root, "list")

The host has one thread, and holds no state but the loaded modules; a call gets its own arguments and streams.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Never, Self

from tests.cli.command import CHECKOUT, Ended, environment

_LOADED: Final = (
    *("cli.cluster.main", "cli.group.main", "cli.network.main", "cli.node.main", "cli.debug.main", "cli.job.main"),
    *("cli.job.run", "cli.job.submit", "cli.fleet.batching"),
    *("cli.live.watching", "cli.choosing.objectlist", "cli.clusterjobs", "cli.tags.tagcommands", "cli.waitcodes"),
)


class ProgramHost:
    """A context manager."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "error", "-m", __name__],
            env={**environment(), "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            pass

    def run(
        self,
        program: str,
        *words: object,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Ended:
        """Run a program to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = json.dumps({"program": program, "words": list(map(str, words)), "stdin": stdin, **_place(env, cwd)})
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


def _place(env: Mapping[str, str] | None, cwd: Path | None) -> dict[str, object]:
    return {"env": dict(env or {}), "cwd": None if cwd is None else str(cwd)}


def _serve() -> None:
    for module in _LOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(_ended(json.loads(line))), flush=True)


def _ended(request: dict[str, Any]) -> dict[str, object]:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(request["stdin"].encode())
        given.seek(0)
        pid = os.fork()
        if pid == 0:
            _become(request, (given, out, errors))
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return {"code": code, "out": _content(out), "err": _content(errors)}


def _become(request: dict[str, Any], streams: tuple[IO[bytes], ...]) -> Never:
    """Be the program; never returns."""
    code: object = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream.fileno(), number)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115  # they are closed with the process
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        os.environ.update(request["env"])
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        time.tzset()
        sys.argv = [request["program"], *request["words"]]
        name = request["program"].removeprefix("gnt-")
        importlib.import_module(f"cli.{name}.main").main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code) if isinstance(code, int) else 0 if code is None else 1)


def _content(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


if __name__ == "__main__":
    _serve()
