"""A shell of one user on one machine, which takes the commands of a page one after the other."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import attrs

from tests.guide.room import Machine

# reads commands from descriptor 3, each to its NUL; tells exit code and folder on 4. `$?` is that of the command before
_LOOP: Final = """
trap : INT
code=0
while IFS= read -r -d "" -u 3 line; do
  (exit $code)
  eval "$line" </dev/null 3<&- 4>&-
  code=$?
  printf '%s\\0%s\\0' "$code" "$PWD" >&4
done
"""
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
# seconds for one command, on a machine that may be 10 times slower
_PATIENCE_S: Final = 180.0
_MOST_BYTES: Final = 1 << 24


@attrs.frozen
class Done:
    """A command that has ended."""

    exit_code: int
    lines: tuple[str, ...]


class Stuck(Exception):
    """A command did not end in time; tells what it printed."""


@attrs.frozen
class Interruption:
    """When Ctrl-C is pressed: as soon as this holds of the lines printed so far, or after a while."""

    is_enough: Callable[[Sequence[str]], bool]
    patience_s: float


class Session:
    """A context manager. Variables, functions and the folder last from command to command."""

    def __init__(self, machine: Machine, user: str) -> None:
        home = "/root" if user == "root" else f"/home/{user}"
        self.folder = home
        # the machine was switched off
        self.is_over = False
        # all that the commands print, also those in the background
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the session
        self._seen = 0
        commands, self._commands = os.pipe()
        self._ends, ends = os.pipe()
        commands, ends = _beyond_standard(commands), _beyond_standard(ends)
        # the pipes are 3 and 4 in the shell, whatever they are here
        wiring = f"exec bash --norc --noprofile -c '{_quoted(_LOOP)}' 3<&{commands} 4>&{ends} {commands}<&- {ends}>&-"
        self._process = subprocess.Popen(
            [*machine.way_in(user), "setsid", "bash", "-c", f"cd {home} && {wiring}"],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=(commands, ends),
            env=_environment(user, home),
            start_new_session=True,
        )
        os.close(commands)
        os.close(ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)
        os.close(self._ends)
        self._output.close()
        self._process.kill()
        self._process.wait()

    def run(self, command: str, deadline: float, *, until_interrupted: Interruption | None = None) -> Done:
        """Run it to its end.

        Args:
            deadline: by the monotonic clock; no command lasts longer, nor longer than its own patience.
            until_interrupted: it follows something; Ctrl-C is pressed when that has shown enough.

        Raises: Stuck: it does not end.
        """
        began = time.monotonic()
        os.write(self._commands, command.encode() + b"\0")
        if until_interrupted is not None:
            self._interrupt(until_interrupted)
        told = self._told(began, min(deadline, time.monotonic() + _PATIENCE_S))
        if told is None:
            self.is_over = True
            return Done(0, self._new_lines())
        code, self.folder = told
        return Done(code, self._new_lines())

    def _told(self, began: float, deadline: float) -> tuple[int, str] | None:
        """Exit code and folder; None: the shell is gone."""
        told = b""
        while told.count(b"\0") < 2:
            if not select.select([self._ends], [], [], max(0.0, deadline - time.monotonic()))[0]:
                printed = "\n  ".join(self._new_lines()) or "nothing"
                raise Stuck(f"it has not ended after {time.monotonic() - began:.0f} s; it printed:\n  {printed}")
            if not (more := os.read(self._ends, 65536)):
                return None
            told += more
        code, folder = told.decode().split("\0")[:2]
        return int(code), folder

    def _interrupt(self, interruption: Interruption) -> None:
        deadline = time.monotonic() + interruption.patience_s
        while not interruption.is_enough(self._peek()) and time.monotonic() < deadline:
            if select.select([self._ends], [], [], 0.05)[0]:
                # it has ended by itself
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell_pid(), signal.SIGINT)

    def _shell_pid(self) -> int:
        """The shell, as seen from here: the child of the program that went into the machine."""
        mine = self._process.pid
        children = Path(f"/proc/{mine}/task/{mine}/children").read_text().split()
        return int(children[0]) if children else mine

    def _peek(self) -> tuple[str, ...]:
        return _lines(os.pread(self._output.fileno(), _MOST_BYTES, self._seen))

    def _new_lines(self) -> tuple[str, ...]:
        told = os.pread(self._output.fileno(), _MOST_BYTES, self._seen)
        self._seen += len(told)
        return _lines(told)


def _lines(told: bytes) -> tuple[str, ...]:
    return tuple(told.decode(errors="replace").rstrip("\n").split("\n")) if told.strip() else ()


def _beyond_standard(descriptor: int) -> int:
    """The same pipe under a number that the shell's own wiring does not close."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _environment(user: str, home: str) -> dict[str, str]:
    programs = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    return {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "COLUMNS": "80",
        "PATH": f"{programs}:{_SBIN}" if user == "root" else programs,
    }


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")
