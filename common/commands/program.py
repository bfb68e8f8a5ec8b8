"""A program that a unit runs: a supervisor starts it, its output is pumped, its end awaited.

Theory. One loop waits for everything: output, signals, and messages of the supervisor. The program's standard output
and error are one pipe, which keeps their order, unless they are wanted apart.

The program has ended when its own process has, and all is over when none of its processes runs any more; the supervisor
ensures this and reports both. If background processes are to run on under the job's locks, the program's own end is
enough: then the supervisor stays, and the end of its pipe, the *leash*, shows that the last of them has ended.
A process that writes to the output later gets SIGPIPE.

Source: DESIGN sections 5 and 16.
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from common.commands.cgroups import while_starting
from common.commands.execution import Launch, become_subreaper, read_report
from common.commands.facts import Fact, read_fact
from common.commands.limits import Limited
from common.commands.programend import Leash, ProgramEnd
from common.commands.spec import Leave
from common.commands.supervision import Terms
from common.commands.supervisor import StartSupervisor
from common.system.log import get_log
from common.system.processes import Process, descendants, send_all
from common.system.signals import ProcessSignals

Sink = Callable[[bytes], None]

# largest pipe that the kernel gives to every user (/proc/sys/fs/pipe-max-size)
_PIPE_BYTES: Final = 2**20
_STATUS_BYTES: Final = 2**16
# seconds between two rounds of ending the processes of a lost supervisor, if no signal reports their end
_LOOK_AGAIN_S: Final = 0.1
_log = get_log(__name__)


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
        terms: Terms,
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
        self._end: Fact | None = None
        # last report of the usage
        self._used: Fact = {"usage": {}, "oom_kills": 0}
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
    def limited(self) -> Limited:
        """The limits that hold for all its processes together."""
        return self._supervisor.limited

    def run(self, on_kill: Callable[[], None]) -> ProgramEnd:
        """Pump the output until all is over; or until the program ends, if its background processes keep the locks.

        Args:
            on_kill: called once when a kill of the job has requested the end.
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

    def _judge(self) -> ProgramEnd:
        assert self._end is not None
        leash = None if self._is_over else Leash(self._supervisor)
        if leash is None:
            self._drop_supervisor()
        returncode = os.waitstatus_to_exitcode(self._end["ended"])
        return ProgramEnd(
            returncode,
            self._end["timed_out"],
            self._end["duration_s"],
            self._was_killed,
            self._used["usage"],
            self._used["oom_kills"],
            leash,
        )

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

    def _take(self, facts: list[Fact]) -> None:
        for fact in facts:
            if "ended" in fact:
                self._end = fact
            if "usage" in fact:
                self._used = fact
            self._is_over = self._is_over or "over" in fact

    def _facts(self) -> list[Fact]:
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
