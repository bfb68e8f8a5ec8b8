"""The surroundings of every command, independent of who started the daemons, and from which shell.

Theory. A command inherits from the fork server everything that is not set for it. So the fork server takes these
surroundings once, when it starts, and a job pays nothing for them: limits, niceness, signals, score for the
kernel's memory killer. The environment, the folder and the umask are set for each command.

| what | value |
|---|---|
| environment | PATH, LANG of the settings; HOME, USER, LOGNAME, SHELL of the job's user; GANTRY_*; the job's own |
| folder | the job's `cwd`, else `/` |
| umask | of the settings, 022 |
| limits | `LIMITS`, as far as the daemons' user may raise them |
| niceness | 0, or the daemons' if they may not lower it |
| signals | none is ignored or blocked |
| standard input | empty, or the job's input |

Source: DESIGN section 16, "Clean surroundings".
"""

import contextlib
import os
import pwd
import resource
import signal
from collections.abc import Mapping
from typing import Final

from common.settings import Settings
from common.settingsfile import ROOT_VARIABLE
from common.system.accounts import user_numbered

SHELL: Final = "/bin/sh"
_ALL: Final = resource.RLIM_INFINITY
_MIB: Final = 2**20
# limit -> (soft, hard) in bytes, seconds or a count, as for a service of systemd
LIMITS: Final[Mapping[int, tuple[int, int]]] = {
    resource.RLIMIT_AS: (_ALL, _ALL),
    resource.RLIMIT_CORE: (0, _ALL),
    resource.RLIMIT_CPU: (_ALL, _ALL),
    resource.RLIMIT_DATA: (_ALL, _ALL),
    resource.RLIMIT_FSIZE: (_ALL, _ALL),
    resource.RLIMIT_MEMLOCK: (8 * _MIB, 8 * _MIB),
    resource.RLIMIT_MSGQUEUE: (819_200, 819_200),
    # more than 1024 breaks programs that use select()
    resource.RLIMIT_NOFILE: (1024, 524_288),
    resource.RLIMIT_RSS: (_ALL, _ALL),
    resource.RLIMIT_RTPRIO: (0, 0),
    resource.RLIMIT_RTTIME: (_ALL, _ALL),
    resource.RLIMIT_STACK: (8 * _MIB, _ALL),
}
# limits that follow the machine's size: half of its maximum of processes
_BY_SIZE: Final = (resource.RLIMIT_NPROC, resource.RLIMIT_SIGPENDING)
# signals that Python ignores for itself, and restores for programs it starts
_PYTHONS: Final = (signal.SIGPIPE, signal.SIGXFSZ)


def take_surroundings() -> None:
    """Give this process, and all that it starts, the defined limits, niceness and signals, as far as permitted."""
    for limit, (soft, hard) in {**LIMITS, **_limits_by_size()}.items():
        _set_limit(limit, soft, hard)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    # a daemon's protection from the memory killer must not extend to jobs
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
    _stop_ignoring()


def environment_of(user: pwd.struct_passwd | None, settings: Settings) -> dict[str, str]:
    """The environment of a command, which the variables of its job may replace.

    Args:
        user: user that it runs as; None: this process's user.
    Raises: Unavailable: users cannot be read now.
    """
    words = {"PATH": settings.jobproc.command_path, "LANG": settings.jobproc.command_lang}
    # so that the command finds the installation that it belongs to
    place = {} if settings.root is None else {ROOT_VARIABLE: str(settings.root)}
    return {**words, **_login_of(user or _own_user()), **place}


def environment_of_installation(settings: Settings) -> dict[str, str]:
    """The variables with the installation's folders, which those of the job never replace."""
    paths = settings.paths
    return {"GANTRY_DATA_DIR": str(paths.data), "GANTRY_RUN_DIR": str(paths.run), "GANTRY_LOG_DIR": str(paths.log)}


def _login_of(user: pwd.struct_passwd | None) -> dict[str, str]:
    if user is None:
        name = str(os.geteuid())
        return {"HOME": "/", "USER": name, "LOGNAME": name, "SHELL": SHELL}
    name = user.pw_name
    return {"HOME": user.pw_dir or "/", "USER": name, "LOGNAME": name, "SHELL": user.pw_shell or SHELL}


def _own_user() -> pwd.struct_passwd | None:
    """None: the number has no name; containers have such users. Raises: Unavailable: users cannot be read now."""
    return user_numbered(os.geteuid())


def _limits_by_size() -> dict[int, tuple[int, int]]:
    try:
        with open("/proc/sys/kernel/threads-max") as file:
            half = int(file.read()) // 2
    except (OSError, ValueError):
        return {}
    return dict.fromkeys(_BY_SIZE, (half, half))


def _set_limit(limit: int, soft: int, hard: int) -> None:
    try:
        resource.setrlimit(limit, (soft, hard))
    except (ValueError, OSError):
        # the hard limit may not be raised, or not so far
        most = resource.getrlimit(limit)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (_least(soft, most), _least(hard, most)))


def _least(one: int, other: int) -> int:
    # -1 means "without limit" here
    return max(one, other) if _ALL in (one, other) else min(one, other)


def _stop_ignoring() -> None:
    """Undo what `nohup`, or a shell that starts processes in the background, has left ignored."""
    for number in signal.valid_signals():
        if number not in _PYTHONS and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
