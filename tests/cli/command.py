"""Running our programs as a user does, and comparing what they print with templates."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from tests.support.forks.programs import start_program

CHECKOUT: Final = Path(__file__).resolve().parents[2]
_MODULES: Final = {
    "gantry": "gantry.main",
    "gnt-job": "job.main",
    "gnt-filter": "filter.main",
    "gnt-debug": "debug.main",
    "gnt-network": "network.main",
    "gnt-group": "group.main",
    "gnt-node": "node.main",
    "gnt-cluster": "cluster.main",
}

# what differs from run to run -> what stands for it in a template
_NORMAL: Final = (
    (re.compile(r"\b\d+d\d\dh\b|\b\d+h\d\dm\b|\b\d+m\d\ds\b|\b\d+(\.\d+)?s\b"), "TIME"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \d{4}"), "CTIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})? (UTC|[+-]\d{4})(?!\w)"), "CLOCK"),
    (re.compile(r"\bpid +\d+"), "pid PID"),
)


# PYTHONUNBUFFERED would hide a line that is not shown at once
_MEDDLING: Final = ("GANTRY_", "NO_COLOR", "NOTIFY_", "PYTHONUNBUFFERED")
# what the start of an interpreter reads
_INTERPRETERS: Final = ("PYTHON", "LC_", "LANG", "TZ")
# time that a program may take
_LONGEST_S: Final = 120.0
# bytes of errors that nobody has read yet
_MOST_ERRORS: Final = 2**20


@attrs.frozen
class Ended:
    """How a program ended, and what it printed."""

    code: int
    out: str
    err: str


def normalised(text: str, *, root: Path | None = None) -> str:
    """The text with times, pids and the root replaced by words, and columns' blanks made one."""
    if root is not None:
        text = text.replace(str(root), "ROOT")
    for pattern, word in _NORMAL:
        text = pattern.sub(word, text)
    return "\n".join(re.sub(r" {2,}(?=\S)", "  ", line) if line[:1] != " " else line for line in text.split("\n"))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without what would change the programs' behaviour."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_MEDDLING)}
    # not among the notes of whoever runs the tests
    state = f"{tempfile.gettempdir()}/gantry-tests-{os.getuid()}"
    return {**kept, "PYTHONPATH": str(CHECKOUT), "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": state, **(extra or {})}


def argv(program: str, *words: object, prelude: str = "pass") -> list[str]:
    """The command that runs one of our programs from the checkout; `prelude` is Python code that runs before it."""
    code = f"{prelude}; from cli.{_MODULES[program]} import main; main()"
    return [sys.executable, "-P", "-W", "error", "-c", code, *map(str, words)]


def run(
    program: str,
    *words: object,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    prelude: str = "pass",
) -> Ended:
    """Run a program to its end.

    It is forked from a process that has loaded our code, unless its code or its interpreter is to be another.
    """
    if prelude != "pass" or any(key.startswith(_INTERPRETERS) for key in env or ()):
        return _run_anew(argv(program, *words, prelude=prelude), stdin, env, cwd)
    with tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        with Background(program, *words, env=env, cwd=cwd, stdin=given.fileno()) as started:
            return started.end()


def _run_anew(words: Sequence[str], stdin: str, env: Mapping[str, str] | None, cwd: Path | None) -> Ended:
    ended = subprocess.run(
        words, input=stdin, capture_output=True, text=True, timeout=_LONGEST_S, env=environment(env), cwd=cwd
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


class Background:
    """A program that runs while the test goes on; a context manager that leaves no process behind.

    Args: stdin: descriptor of its standard input; None: there is nothing to read.
    """

    def __init__(
        self,
        program: str,
        *words: object,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | None = None,
    ) -> None:
        self._was_given_up = False
        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        # `end` reads it last
        fcntl.fcntl(err[1], fcntl.F_SETPIPE_SZ, _MOST_ERRORS)
        self._out, self._err = open(out[0]), open(err[0])  # noqa: SIM115  # closed with this object
        with open(os.devnull) as nothing:
            streams = {0: nothing.fileno() if stdin is None else stdin, 1: out[1], 2: err[1]}
            try:
                module = f"cli.{_MODULES[program]}"
                self._process = start_program(module, argv(program, *words), environment(env), streams, cwd)
            finally:
                os.close(out[1])
                os.close(err[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._err.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def read_line(self) -> str:
        """The next line of standard output; waits for it, "" at the end."""
        return self._out.readline()

    def read_error_line(self) -> str:
        """The next line of standard error; waits for it, "" at the end."""
        return self._err.readline()

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        """Wait for the end; what is left of the output."""
        overdue = threading.Timer(_LONGEST_S, self._give_up)
        overdue.start()
        ended = Ended(0, self._out.read(), self._err.read())
        code = self._process.wait(_LONGEST_S)
        overdue.cancel()
        assert not self._was_given_up, f"it did not end in {_LONGEST_S:g} s: {ended}"
        return attrs.evolve(ended, code=code)

    def _give_up(self) -> None:
        self._was_given_up = True
        self._process.kill()
