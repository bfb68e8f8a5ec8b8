"""What a command's process does between fork and exec, as the user whom the command runs as.

Its folder and the file on its standard input are opened here and not by the job process, which may be root: the
kernel then judges by the rights of the job's user. The limits that a job asks for are set here as well, since
the job process must not be bound by them. A step that fails is told through a pipe of its own, with what it was about.
"""

import enum
import json
import os
import resource
import stat
from collections.abc import Mapping
from typing import Final

import attrs

# of a report; a path has less than a quarter of it
_LONGEST: Final = 2**16


class Step(enum.Enum):
    """What failed."""

    FOLDER = "folder"
    INPUT = "input"
    LIMIT = "limit"
    NICENESS = "niceness"


@attrs.frozen
class Failure:
    """A step that failed, on what, and its errno, if it has one."""

    step: Step
    name: str
    number: int | None


@attrs.frozen
class Prelude:
    """The steps of one command; those that are not wanted are left out.

    `report` is called in the child, `failure` in the parent when the start has failed.
    """

    cwd: str | None = None
    # opened for reading
    stdin_path: str | None = None
    # number of the kernel's -> (soft, hard)
    limits: Mapping[int, tuple[int, int]] = attrs.field(factory=dict)
    # added to what it is
    niceness: int = 0
    # reading and writing end
    _pipe: tuple[int, int] = attrs.field(factory=lambda: os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))

    def run(self) -> None:
        """Do the steps; in the child. Raises: OSError, ValueError: one failed, and has been reported."""
        step, name = Step.FOLDER, ""
        try:
            if self.cwd is not None:
                name = self.cwd
                os.chdir(self.cwd)
            if self.stdin_path is not None:
                step, name = Step.INPUT, self.stdin_path
                _take_input(self.stdin_path)
            step = Step.NICENESS
            if self.niceness:
                name = str(self.niceness)
                os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + self.niceness)
            step = Step.LIMIT
            for limit, pair in self.limits.items():
                name = str(limit)
                resource.setrlimit(limit, pair)
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else None
            os.write(self._pipe[1], json.dumps([step.value, name, number]).encode())
            raise

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that `run` needs; closed when the program is executed."""
        return frozenset(self._pipe)

    def failure(self) -> Failure | None:
        """Which step failed; None: none did."""
        try:
            step, name, number = json.loads(os.read(self._pipe[0], _LONGEST))
        except (BlockingIOError, ValueError):
            return None
        return Failure(Step(step), name, number)

    def close(self) -> None:
        for fd in self._pipe:
            os.close(fd)


def _take_input(path: str) -> None:
    # a pipe without a writer must not hold up the start; and one with one would be no input that can be had again
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise ValueError("not a regular file")
    os.set_blocking(fd, True)
    os.dup2(fd, 0, inheritable=True)
