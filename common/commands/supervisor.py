"""The supervisor of a command, from the job process's side: started by a fork, asked to stop, reaped.

`supervision` is its side after the fork. A command of another user is started by the launcher, where there is one: it
runs as root, and starts the same supervisor (`protocol.launcher`).

Source: DESIGN sections 5 and 16.
"""

import contextlib
import errno
import fcntl
import os
import resource
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from common.commands.cgroups import CPU, MEMORY, ControlGroup, Limited, WantedLimits, limit_groups, while_starting
from common.commands.execution import Launch, NotStarted, Stage, become_subreaper, read_report
from common.commands.spec import CommandOutcome, Leave
from common.commands.supervision import Supervision, SupervisorLine, SupervisorTerms, read_fact, supervise_and_exit
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.processes import Process, descendants, send_all
from common.system.signals import HANDLED, ProcessSignals

_log = get_log(__name__)


@attrs.frozen
class Supervisor:
    """The supervisor as a child of the job process: only the job process reaps it, so its pid stays its own."""

    pid: int
    # pipe of its reports, at its end when the supervisor is gone
    status: int
    # group of the command
    group: ControlGroup | None
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
StartSupervisor = Callable[[Launch, SupervisorTerms, Sequence[int]], Supervisor]


def starter(livelock: Livelock, signals: ProcessSignals) -> StartSupervisor:
    """Return the function that forks a supervisor of this process.

    Args:
        livelock: the job's, which the supervisor holds as well.
        signals: the job process's, installed.
    """

    def start(launch: Launch, terms: SupervisorTerms, outputs: Sequence[int]) -> Supervisor:
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
                    supervise_and_exit(
                        Supervision(
                            held.launch,
                            terms,
                            signals,
                            outputs,
                            writer,
                            livelock_fd,
                            job_process,
                            held.group,
                            held.limited,
                        )
                    )
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
class HeldProgram:
    """A program to start, with the groups that hold its processes."""

    launch: Launch
    group: ControlGroup | None
    limited: Limited

    def remove(self) -> None:
        """Remove the groups of a program that was not started."""
        for group in (self.group, *self.limited.extra):
            if group is not None:
                group.remove()


def hold(launch: Launch, terms: SupervisorTerms) -> HeldProgram:
    """Make the groups of a program. Raises: NotStarted: a wanted limit cannot be set here."""
    group = _make_group(terms)
    limited = Limited()
    if terms.groups is not None:
        limited = limit_groups(terms.wanted, group, terms.run_folder, terms.group_name)
    held = HeldProgram(_with_own_limits(launch, terms.wanted, limited), group, limited)
    if terms.wanted.cpus is not None and CPU not in limited.by_controller:
        held.remove()
        raise NotStarted(Stage.LIMIT, OSError(errno.ENOTSUP, "no control group for processors"))
    return held


def _with_own_limits(launch: Launch, wanted: WantedLimits, limited: Limited) -> Launch:
    """The launch with a memory limit for each process if there is none for all together."""
    if wanted.memory_bytes is None or MEMORY in limited.by_controller:
        return launch
    limits = {**launch.prelude.limits, resource.RLIMIT_AS: (wanted.memory_bytes, wanted.memory_bytes)}
    return attrs.evolve(launch, prelude=attrs.evolve(launch.prelude, limits=limits))


def _make_group(terms: SupervisorTerms) -> ControlGroup | None:
    if terms.groups is None:
        return None
    try:
        return terms.groups.make(terms.group_name)
    except OSError as error:
        _log.warning("group.not_made", job=terms.job_id, reason=error, effect="its descendants are looked for instead")
        return None


# The processes that a program leaves running under the job's locks.
#
# Source: DESIGN sections 5 and 16.


@attrs.frozen
class KeptProcesses:
    """Processes that a program left running under the job's locks: until the end of its supervisor."""

    _supervisor: Supervisor
    _signals: ProcessSignals

    @property
    def is_gone(self) -> bool:
        """Whether none of them is left, as far as is known without a wait."""
        return bool(self._signals.wait(0, self._supervisor.status))

    def wait(self) -> None:
        """Wait until none is left, or a signal comes."""
        self._signals.wait(None, self._supervisor.status)

    def stop(self) -> None:
        """Request their end."""
        self._supervisor.stop()

    def close(self) -> None:
        os.close(self._supervisor.status)
        self._supervisor.reap()


# A program that a unit runs: a supervisor starts it, its output is pumped, its end awaited.
#
# Theory. One loop waits for everything: output, signals, and messages of the supervisor. The program's standard output
# and error are one pipe, which keeps their order, unless they are wanted apart.
#
# The program has ended when its own process has, and all is over when none of its processes runs any more; the
# supervisor ensures this and reports both. If background processes are to run on under the job's locks, the program's
# own end is enough: then the supervisor stays, and the end of its pipe shows that the last of them has
# ended. A process that writes to the output later gets SIGPIPE.
#
# Source: DESIGN sections 5 and 16.


Sink = Callable[[bytes], None]

# largest pipe that the kernel gives to every user (/proc/sys/fs/pipe-max-size)
_PIPE_BYTES: Final = 2**20
_STATUS_BYTES: Final = 2**16
# seconds between two rounds of ending the processes of a lost supervisor, if no signal reports their end
_LOOK_AGAIN_S: Final = 0.1


class SupervisorLost(Exception):
    """the supervisor of the program was killed; all that it supervised was ended"""


class RunningProgram:
    """A program from its start to its end.

    Args:
        sink: gets the output in pieces, as they come.
        error_sink: the same for standard error, if it is apart.
        start: starts its supervisor.
    Raises:
        NotStarted: it could not be started.
        GantryError: it may not be started.
        OSError: no process or descriptor is available.
    """

    def __init__(
        self,
        launch: Launch,
        terms: SupervisorTerms,
        sink: Sink,
        signals: ProcessSignals,
        start: StartSupervisor,
        error_sink: Sink | None = None,
    ) -> None:
        # adopts the processes of a lost supervisor
        become_subreaper()
        self._signals = signals
        self._terms = terms
        # processes left by earlier programs of this job, which must not be ended with this one
        self._strangers = descendants(os.getpid()) if _has_children() else frozenset[Process]()
        self._end: SupervisorLine | None = None
        # last report of the usage
        self._used: SupervisorLine = {"usage": {}, "oom_kills": 0}
        self._is_over = self._was_killed = False
        self._unread = b""
        # reading ends of pipes -> sink for their data
        self._outputs: dict[int, Sink] = {}
        if terms.groups is not None and terms.leave is Leave.DETACH:
            # no other process notices when the groups of detached commands are empty
            terms.groups.sweep()
        with while_starting(terms.run_folder):
            self._start(launch, (sink, error_sink), start)

    def _start(self, launch: Launch, sinks: Sequence[Sink | None], start: StartSupervisor) -> None:
        writing_ends = [self._open(each) for each in sinks if each is not None]
        try:
            self._supervisor = start(launch, self._terms, writing_ends)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in writing_ends:
                os.close(fd)
        try:
            self._await_start()
        except BaseException:
            self.close()
            self._drop_supervisor()
            raise

    @property
    def limited_each(self) -> bool:
        """Whether its memory is limited for each process by itself, for want of a control group."""
        return self._terms.wanted.memory_bytes is not None and MEMORY not in self._supervisor.limited.by_controller

    def run(self, on_kill: Callable[[], None]) -> tuple[CommandOutcome, KeptProcesses | None]:
        """Pump the output until all is over; or until the program ends, if its background processes keep the locks.

        Args: on_kill: called once when a kill of the job has requested the end.
        Returns: its end; and the processes that it has left under the locks, which the caller closes, if any matter.
        Raises: SupervisorLost.
        """
        try:
            while not self._is_done():
                self._look_for_kill(on_kill)
                ready = self._signals.wait(None, self._supervisor.status, *self._outputs)
                self._pump(fd for fd in ready if fd in self._outputs)
                if self._supervisor.status in ready:
                    self._take(self._facts())
        except BaseException:
            self._drop_supervisor()
            raise
        # one pipeful: what was there at the end, and no more, as others may go on writing
        self._pump(self._outputs)
        self.close()
        return self._judge()

    def close(self) -> None:
        """Stop reading the output."""
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()

    def _open(self, sink: Sink) -> int:
        """Make a pipe for output; return its writing end."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._outputs[reader] = sink
        with contextlib.suppress(OSError):
            # fewer, larger reads; refused to users that have used up their share of pipe memory
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # programs do not expect a non-blocking descriptor; our end has a flag of its own
        os.set_blocking(writer, True)
        return writer

    def _judge(self) -> tuple[CommandOutcome, KeptProcesses | None]:
        assert self._end is not None
        left = None if self._is_over else KeptProcesses(self._supervisor, self._signals)
        if left is None:
            self._drop_supervisor()
        # negative for a signal
        code = os.waitstatus_to_exitcode(self._end["ended"])
        outcome = CommandOutcome(
            exit_code=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            timed_out=self._end["timed_out"],
            was_killed=self._was_killed,
            duration_s=self._end["duration_s"],
            usage=self._used["usage"],
            oom_kills=self._used["oom_kills"],
            limited_each=self.limited_each,
        )
        return outcome, left

    def _is_done(self) -> bool:
        if self._is_over:
            return True
        return self._end is not None and self._terms.leave is Leave.KEEP_LOCKS and not self._was_killed

    def _look_for_kill(self, on_kill: Callable[[], None]) -> None:
        if self._signals.kill_asked and not self._was_killed:
            self._was_killed = True
            # first, because `on_kill` writes to a disk that may be full
            self._supervisor.stop()
            on_kill()

    def _await_start(self) -> None:
        """Raises: NotStarted; SupervisorLost."""
        while not (facts := self._facts()):
            self._signals.wait(None, self._supervisor.status)
        if (report := facts[0].get("not_started")) is not None:
            failure = read_report(report.encode())
            assert failure is not None
            raise failure
        self._take(facts)

    def _take(self, facts: list[SupervisorLine]) -> None:
        for fact in facts:
            if "ended" in fact:
                self._end = fact
            if "usage" in fact:
                self._used = fact
            self._is_over = self._is_over or "over" in fact

    def _facts(self) -> list[SupervisorLine]:
        """The supervisor's new reports; empty if a signal came first. Raises: SupervisorLost."""
        if not self._signals.wait(0, self._supervisor.status):
            return []
        data = os.read(self._supervisor.status, _STATUS_BYTES)
        if not data:
            self._end_orphans()
            raise SupervisorLost
        *lines, self._unread = (self._unread + data).split(b"\n")
        return list(map(read_fact, lines))

    def _end_orphans(self) -> None:
        """The supervisor is gone: end all processes that this one has adopted. Returns when none is left."""
        _log.error("supervisor.lost", job=self._terms.job_id, next="all that it supervised is ended")
        self.close()
        group = self._supervisor.group
        while True:
            _reap_all()
            apart = self._strangers | descendants(*(stranger.pid for stranger in self._strangers))
            left = descendants(os.getpid()) - apart
            if not left and (group is None or not group.pids()):
                break
            if group is not None:
                with contextlib.suppress(OSError):
                    group.kill()
            send_all(left, signal.SIGKILL)
            self._signals.wait(_LOOK_AGAIN_S)
        if group is not None:
            group.remove()

    def _drop_supervisor(self) -> None:
        os.close(self._supervisor.status)
        self._supervisor.reap()

    def _pump(self, fds: Iterable[int]) -> None:
        """Read the available data, at most about a pipeful from each."""
        for fd in tuple(fds):
            self._pump_one(fd, _PIPE_BYTES)

    def _pump_one(self, fd: int, limit: int) -> None:
        while limit > 0:
            try:
                data = os.read(fd, limit)
            except BlockingIOError:
                return
            if not data:
                del self._outputs[fd]
                os.close(fd)
                return
            self._outputs[fd](data)
            limit -= len(data)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reap_all() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
