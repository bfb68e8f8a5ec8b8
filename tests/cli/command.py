"""Running our programs as a user does, and comparing what they print with templates."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import attrs

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
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?"), "CLOCK"),
    (re.compile(r"\bpid +\d+"), "pid PID"),
)


# PYTHONUNBUFFERED would hide a line that is not shown at once
_MEDDLING: Final = ("GANTRY_", "NO_COLOR", "NOTIFY_", "PYTHONUNBUFFERED")


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
    """Run a program to its end."""
    ended = subprocess.run(
        argv(program, *words, prelude=prelude),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(env),
        cwd=cwd,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


class Background:
    """A program that runs while the test goes on; a context manager that leaves no process behind."""

    def __init__(self, program: str, *words: object, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv(program, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(env),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def read_line(self) -> str:
        """The next line of standard output; waits for it, "" at the end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def read_error_line(self) -> str:
        """The next line of standard error; waits for it, "" at the end."""
        assert self._process.stderr is not None
        return self._process.stderr.readline()

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        """Wait for the end; what is left of the output."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # not `communicate`, which knows nothing of what `read_line` has read ahead
        out, err = self._process.stdout.read(), self._process.stderr.read()
        return Ended(self._process.wait(120), out, err)
