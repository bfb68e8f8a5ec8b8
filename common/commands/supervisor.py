"""The supervisor of a command, from the job process's side: started by a fork, asked to stop, reaped.

`supervision` is its side after the fork. A command of another user is started by the launcher, where there is one: it
runs as root, and starts the same supervisor (`protocol.launcher`).

Source: DESIGN sections 5 and 16.
"""

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Callable, Sequence

import attrs

from common.commands.cgroups import Group
from common.commands.execution import Launch, NotStarted, Stage
from common.commands.limits import CPU, MEMORY, Limited, Wanted, limit_groups
from common.commands.supervision import Supervision, Terms, supervise_and_exit
from common.system.livelock import Livelock
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


# starts a supervisor for this program; its outputs, which the caller closes, are standard output, and standard error
# if that is apart. Raises: NotStarted: a wanted limit cannot be set here. GantryError: it is refused. OSError: no
# process, pipe or descriptor is available.
StartSupervisor = Callable[[Launch, Terms, Sequence[int]], Supervisor]


def starter(livelock: Livelock, signals: ProcessSignals) -> StartSupervisor:
    """Return the function that forks a supervisor of this process.

    Args:
        livelock: the job's, which the supervisor holds as well.
        signals: the job process's, installed.
    """

    def start(launch: Launch, terms: Terms, outputs: Sequence[int]) -> Supervisor:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            held = hold(launch, terms)
        except NotStarted:
            os.close(reader)
            os.close(writer)
            raise
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            with livelock.lent() as livelock_fd:
                job_process = os.getpid()
                pid = os.fork()
                if pid == 0:
                    supervise_and_exit(held.supervision(terms, signals, outputs, writer, livelock_fd, job_process))
        except OSError:
            os.close(reader)
            held.remove()
            raise
        finally:
            os.close(writer)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Supervisor(pid, reader, held.group, held.limited)

    return start


@attrs.frozen
class Held:
    """A program to start, with the groups that hold its processes."""

    launch: Launch
    group: Group | None
    limited: Limited

    def supervision(
        self,
        terms: Terms,
        signals: ProcessSignals,
        outputs: Sequence[int],
        status: int,
        livelock_fd: int,
        process_group: int,
        control: int = -1,
    ) -> Supervision:
        """What the supervisor does, in its process; until then the signals in `HANDLED` are blocked there."""
        return Supervision(
            self.launch,
            terms,
            signals,
            outputs,
            status,
            livelock_fd,
            process_group,
            self.group,
            self.limited,
            control,
        )

    def remove(self) -> None:
        """Remove the groups of a program that was not started."""
        for group in (self.group, *self.limited.extra):
            if group is not None:
                group.remove()


def hold(launch: Launch, terms: Terms) -> Held:
    """Make the groups of a program. Raises: NotStarted: a wanted limit cannot be set here."""
    group = _make_group(terms)
    limited = Limited()
    if terms.groups is not None:
        limited = limit_groups(terms.wanted, group, terms.run_folder, terms.group_name)
    held = Held(_with_own_limits(launch, terms.wanted, limited), group, limited)
    if terms.wanted.cpus is not None and CPU not in limited.by_controller:
        held.remove()
        raise NotStarted(Stage.LIMIT, OSError(errno.ENOTSUP, "no control group for processors"))
    return held


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
