"""The supervisor of a command, from the job process's side: started by a fork, asked to stop, reaped.

`supervision` is its side after the fork.

Source: DESIGN sections 5 and 16.
"""

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Sequence

import attrs

from common.commands.cgroups import Group
from common.commands.execution import Launch, NotStarted, Stage
from common.commands.limits import CPU, MEMORY, Limited, Wanted, limit_groups
from common.commands.supervision import Supervision, Terms, supervise_and_exit
from common.system.log import get_log
from common.system.signals import HANDLED, ProcessSignals

_log = get_log(__name__)


@attrs.frozen
class Supervisor:
    """The supervisor as a child of the job process: only the job process reaps it, so its pid stays its own."""

    pid: int
    # pipe of its reports, at its end when the supervisor is gone
    status: int
    # group of the command
    group: Group | None
    limited: Limited

    def stop(self) -> None:
        """Request the end of the command and of all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def reap(self) -> None:
        """Take its exit status if it has ended."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)


def start_supervisor(launch: Launch, terms: Terms, outputs: Sequence[int], signals: ProcessSignals) -> Supervisor:
    """Fork a supervisor that starts the program.

    Args:
        outputs: the program's standard output, and its standard error if that is apart; the caller closes them.
        signals: the job process's, installed.
    Raises:
        NotStarted: a wanted limit cannot be set here.
        OSError: no process, pipe or descriptor is available.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    group = _make_group(terms)
    limited = Limited()
    if terms.groups is not None:
        limited = limit_groups(terms.wanted, group, terms.run_folder, terms.group_name)
    if terms.wanted.cpus is not None and CPU not in limited.by_controller:
        os.close(reader)
        os.close(writer)
        _remove((group, *limited.extra))
        raise NotStarted(Stage.LIMIT, OSError(errno.ENOTSUP, "no control group for processors"))
    launch = _with_own_limits(launch, terms.wanted, limited)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        with terms.livelock.lent() as livelock_fd:
            job_process = os.getpid()
            pid = os.fork()
            if pid == 0:
                own = Supervision(launch, terms, signals, outputs, writer, livelock_fd, job_process, group, limited)
                supervise_and_exit(own)
    except OSError:
        os.close(reader)
        _remove((group, *limited.extra))
        raise
    finally:
        os.close(writer)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return Supervisor(pid, reader, group, limited)


def _remove(groups: Sequence[Group | None]) -> None:
    for group in groups:
        if group is not None:
            group.remove()


def _with_own_limits(launch: Launch, wanted: Wanted, limited: Limited) -> Launch:
    """The launch with a memory limit for each process if there is none for all together."""
    if wanted.memory_bytes is None or MEMORY in limited.by_controller:
        return launch
    limits = {**launch.prelude.limits, resource.RLIMIT_AS: (wanted.memory_bytes, wanted.memory_bytes)}
    return attrs.evolve(launch, prelude=attrs.evolve(launch.prelude, limits=limits))


def _make_group(terms: Terms) -> Group | None:
    if terms.groups is None:
        return None
    try:
        return terms.groups.make(terms.group_name)
    except OSError as error:
        _log.warning("group.not_made", job=terms.job_id, reason=error, effect="its descendants are looked for instead")
        return None
