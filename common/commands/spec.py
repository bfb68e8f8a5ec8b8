"""A command as data: what to run, and what came of it; the same for this machine and for a node.

Source: DESIGN sections 7, 13 and 16.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from common.shapes import Lenient


class Leave(enum.Enum):
    """The treatment of processes that a command leaves behind."""

    END = "end"
    # they run on, and nothing of the job waits for them
    DETACH = "detach"
    # they run on, and the job's locks are kept until the last of them has ended
    KEEP_LOCKS = "keep locks"


@attrs.frozen(kw_only=True)
class CommandSpec(Lenient):
    """What to run. Names of users, folders and programs are those of the machine on which it runs."""

    # program and its arguments; if `shell` is set, the words are joined by blanks and given to a shell
    argv: tuple[str, ...]
    shell: bool = False
    # variables beside those of the defined environment; those that name the job are among them
    env: Mapping[str, str] = attrs.field(factory=dict)
    # absolute path
    cwd: str = "/"
    # None: the user of the daemons
    user: str | None = None
    # login of the user whose job it is; None: the job has no owner, so it is root's or the daemons' user's
    submitter: str | None = None
    stdin_text: str | None = None
    # absolute path
    stdin_path: str | None = None
    stderr_apart: bool = False
    # seconds; None: no limit
    timeout: float | None = None
    # bytes of all processes together
    memory: int | None = None
    # processors
    cpus: float | None = None
    nice: int | None = None
    # name -> [soft, hard] or [both]; -1: no limit
    ulimits: Mapping[str, tuple[int, ...]] = attrs.field(factory=dict)
    leave: Leave = Leave.END
    # seconds between the two signals of a stop
    grace_s: float = 30.0


@attrs.frozen(kw_only=True)
class CommandOutcome(Lenient):
    """What came of a command that has ended, or was not begun."""

    # why its program was not executed; None: it was
    not_begun: str | None = None
    # None: it was ended by a signal
    exit_code: int | None = None
    # such as "SIGTERM"
    signal: str | None = None
    timed_out: bool = False
    # whether it was asked to stop before its end
    was_killed: bool = False
    # whether its supervisor was killed, and all of it was ended then; exit code and signal are not known
    supervisor_lost: bool = False
    duration_s: float = 0.0
    # as `common.commands.supervision` tells it
    usage: Mapping[str, object] = attrs.field(factory=dict)
    # number of its processes that the kernel killed for memory
    oom_kills: int = 0
    # whether its memory was limited for each process by itself, for want of a control group
    limited_each: bool = False


# The kernel's process limits that a command may have, by their names in setrlimit(2).


ULIMITS: Final = (
    *("as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nofile", "nproc", "rtprio", "rttime"),
    *("sigpending", "stack"),
)
