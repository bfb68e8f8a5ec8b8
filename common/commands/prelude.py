"""The steps of a command's process between fork and exec, as the user of the command.

Its folder and the file for its standard input are opened here, not by the job process, which may be root: so
the kernel checks the rights of the job's user. The job's limits are also set here, because they
must not bind the job process. A failed step is reported through a pipe of its own, with the object that it concerned.
"""

import enum
import json
import os
import resource
import stat
from collections.abc import Mapping
from typing import Final

import attrs

# bytes of a report; a path has less than a quarter of it
_LONGEST: Final = 2**16


class Step(enum.Enum):
    """A step that can fail."""

    FOLDER = "folder"
    INPUT = "input"
    LIMIT = "limit"
    NICENESS = "niceness"


@attrs.frozen
class Failure:
    """A failed step, its object, and its errno, if it has one."""

    step: Step
    name: str
    number: int | None


@attrs.frozen
class Prelude:
    """The steps of one command; unwanted ones are left out.

    `report` is called in the child, `failure` in the parent when the start has failed.
    """

    cwd: str | None = None
    # path to open for reading
    stdin_path: str | None = None
    # number of the kernel's limit -> (soft, hard)
    limits: Mapping[int, tuple[int, int]] = attrs.field(factory=dict)
    # niceness to add
    niceness: int = 0
    # reading and writing end, non-blocking
    pipe: tuple[int, int] = attrs.field(factory=lambda: os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))

    def run(self) -> None:
        """Do the steps; in the child. Raises: OSError, ValueError: a step failed, and has been reported."""
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
            os.write(self.pipe[1], json.dumps([step.value, name, number]).encode())
            raise

    @property
    def fds(self) -> frozenset[int]:
        """The descriptors that `run` needs; they close when the program is executed."""
        return frozenset(self.pipe)

    def failure(self) -> Failure | None:
        """Return the failed step; None: none failed."""
        try:
            step, name, number = json.loads(os.read(self.pipe[0], _LONGEST))
        except (BlockingIOError, ValueError):
            return None
        return Failure(Step(step), name, number)

    def close(self) -> None:
        for fd in self.pipe:
            os.close(fd)


def _take_input(path: str) -> None:
    # a pipe without a writer must not block the start; and input from a pipe with one could not be read a second time
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise ValueError("not a regular file")
    os.set_blocking(fd, True)
    os.dup2(fd, 0, inheritable=True)
