"""The life of a supervisor: a process between the job process and the command that outlives both until all is over.

Theory. It is a fork of the job process that executes no program, so it costs a fork and little memory. It starts
the command. As "subreaper" it inherits each orphan among the command's descendants, in any session, so
none can hide. It ends last: it is never in the control group that it ends, nor in the command's process group.
A subreaper without children has no descendants: that proves that all is over.

It holds the flock of the job's livelock, so the job's locks stay held until it lets go, even if the job process
is killed. The command itself inherits none of our descriptors. When the supervisor is killed, the kernel kills the
command, and the processes that the command started fall to the job process, which ends them.

SIGTERM requests a stop of the command; the supervisor also handles the time-out, so neither needs a living job
process. The job process cannot signal a supervisor that the launcher has started as root: that one takes the request
as a byte through a socket, `control`. The supervisor reports events through a pipe, one JSON object per line:
`started`, or `not_started`; `ended` with the end of the command itself; `over`, with which it releases the livelock. At
the pipe's end the supervisor is gone.

Source: DESIGN sections 5 and 16; everyday.md a.
"""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, TypedDict, assert_never, cast

import attrs
import orjson
import setproctitle

from common.commands.cgroups import MEMORY, ControlGroup, GroupTree, Limited, WantedLimits
from common.commands.execution import (
    Berth,
    Launch,
    Stage,
    become,
    become_subreaper,
    close_all_but,
    read_report,
    report_failure,
)
from common.commands.spec import Leave
from common.commands.stopping import Course, Seen, StopPhase, StopStep, advance, begin
from common.system.log import get_log, log_fds
from common.system.processes import descendants, own_children, send_all
from common.system.signals import HANDLED, ProcessSignals, do_nothing

# What a supervisor tells its job process: lines of JSON through a pipe.
#
# Source: DESIGN section 16.


class SupervisorLine(TypedDict, total=False):
    """A line; each has some of these."""

    # pid of the program that was executed
    started: int
    # report of a failure to start
    not_started: str
    # wait status of the program
    ended: int
    timed_out: bool
    duration_s: float
    # as `usage_so_far` has it
    usage: Mapping[str, object]
    oom_kills: int
    # nothing is left of the program, and its locks are free
    over: bool


def write_facts(facts: Iterable[SupervisorLine]) -> bytes:
    return b"".join(orjson.dumps(fact) + b"\n" for fact in facts)


def read_fact(line: bytes) -> SupervisorLine:
    """Args: line: one that `write_facts` has made, without its end."""
    return cast(SupervisorLine, orjson.loads(line))


# The usage of a command: CPU time, peak memory, input and output.
#
# Theory. The kernel sums up the children that a process has waited for. So a supervisor, which inherits and reaps all
# processes that its command leaves, knows the times and the I/O of all that have ended; of memory it knows only the
# peak of the largest single process. A control group with the memory controller knows the peak of all together.
#
# The peak of a process includes its life before it executed its program, when it was a copy of the supervisor, and
# that program's own memory cannot be told apart from it. So a peak that is not above the supervisor's is only a bound.
#
# Source: DESIGN section 16; getrusage(2); everyday.md a.


# bytes of a unit of ru_inblock and ru_oublock, independent of the disk's blocks
_BLOCK_BYTES: Final = 512
# KiB by which a copy may exceed the supervisor: the kernel adds up pages of its processors now and then
_COPY_KIB: Final = 4096
# files with the peak and the count of kills, by the version of the groups
_PEAKS: Final = ("memory.peak", "memory.max_usage_in_bytes")
_EVENTS: Final = ("memory.events", "memory.oom_control")


def usage_so_far(memory: ControlGroup | None) -> dict[str, object]:
    """The usage of the ended children of this process, and of their ended children; JSON-able.

    Args: memory: the command's group that counts memory; None: there is none.
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = _peak_of(memory)
    return {
        "cpu_user_s": round(used.ru_utime, 6),
        "cpu_system_s": round(used.ru_stime, 6),
        "memory_peak_bytes": used.ru_maxrss * 1024 if peak is None else peak,
        # false: the peak of the largest process
        "memory_of_all": peak is not None,
        # true: the peak is not known, only that it is no higher
        "memory_is_at_most": peak is None and used.ru_maxrss <= _own_peak_kib() + _COPY_KIB,
        "read_bytes": used.ru_inblock * _BLOCK_BYTES,
        "written_bytes": used.ru_oublock * _BLOCK_BYTES,
    }


def killed_for_memory(memory: ControlGroup | None) -> int:
    """The number of processes of the group that the kernel has killed for memory."""
    for name in _EVENTS if memory is not None else ():
        assert memory is not None
        words = (line.partition(" ") for line in (memory.read(name) or "").splitlines())
        counts = {key: int(value) for key, _, value in words if value.isdigit()}
        if kills := counts.get("oom_kill", 0):
            # where it kills a whole group it counts the process that it had chosen twice, unless that is gone by then
            return max(1, kills - counts.get("oom_group_kill", 0))
    return 0


def _own_peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_of(memory: ControlGroup | None) -> int | None:
    for name in _PEAKS if memory is not None else ():
        assert memory is not None
        text = (memory.read(name) or "").strip()
        if text.isdigit():
            return int(text)
    return None


_STDERR: Final = 2
# seconds of killing new children before other work
_ROUND_S: Final = 0.2
_REPORT_BYTES: Final = 64 * 2**10
_log = get_log(__name__)


@attrs.frozen
class SupervisorTerms:
    """The instructions for a supervisor."""

    # job of the command, for the log
    job_id: int
    # name of the supervisor among the processes of the machine
    title: str
    leave: Leave
    # None: no time-out
    timeout_s: float | None
    # seconds from SIGTERM to SIGKILL
    grace_s: float
    # tree for the command's group, and its name; None: no control groups here
    groups: GroupTree | None
    group_name: str
    # run folder of the installation, which distinguishes its groups from others'
    run_folder: Path
    wanted: WantedLimits = attrs.field(factory=WantedLimits)


def supervise_and_exit(supervision: "Supervision", at_end: Callable[[], None] = do_nothing) -> NoReturn:
    """Run the supervisor to its end, in a forked child.

    Args: at_end: called when all is over, unless the supervisor failed.
    """
    code = 1
    try:
        supervision.run()
        at_end()
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            _log.exception("supervisor.crashed", job=supervision.terms.job_id)
    finally:
        os._exit(code)


@attrs.define
class Supervision:
    """The life of the supervisor, in the forked child; until it runs, the signals in `HANDLED` are blocked there."""

    launch: Launch
    terms: SupervisorTerms
    signals: ProcessSignals
    outputs: Sequence[int]
    status: int
    livelock_fd: int
    # process group for the command; 0: one of its own
    process_group: int
    group: ControlGroup | None
    limited: Limited
    # socket that brings a byte as the request to stop; -1: there is none
    control: int = -1
    command: int = 0
    began: float = 0.0
    wait_status: int | None = None
    # pipe that reports the command's start; -1: the report has been read
    report: int = -1
    is_told: bool = False
    # False: it has no descendants, and never will
    has_children: bool = True
    course: Course = attrs.field(init=False)

    def run(self) -> None:
        self._leave_job()
        self._start()
        timeout_s = self.terms.timeout_s
        self.course = begin(self.terms.leave, self.terms.grace_s, None if timeout_s is None else self.began + timeout_s)
        while not self._go_on():
            look_at = self.course.look_at
            left_s = None if look_at is None else look_at - time.monotonic()
            ready = self.signals.wait(left_s, *(fd for fd in (self.report, self.control) if fd >= 0))
            if self.control in ready:
                self._take_request()
            if self.report in ready and not self._take_report():
                return

    def _leave_job(self) -> None:
        self.signals.begin_anew()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        if self.process_group == 0:
            # within a session everybody may send SIGCONT, and commands of other users are in the launcher's
            os.setsid()
        else:
            os.setpgid(0, 0)
        become_subreaper()
        own = {*range(_STDERR + 1), *self.signals.fds, *log_fds()}
        close_all_but(frozenset({*own, *self._lent, self.status, self.livelock_fd, self.control}))
        setproctitle.setproctitle(self.terms.title)

    def _start(self) -> None:
        self.report, writer = os.pipe2(os.O_CLOEXEC)
        berth = Berth(self.outputs, self.process_group, os.getpid(), self.limited.extra)
        self.began = time.monotonic()
        try:
            pid = None if self.group is None else self.group.fork()
            if pid is None:
                berth = attrs.evolve(berth, groups=self._groups)
                pid = os.fork()
            self.command = pid
        except OSError as error:
            # reported like any program that does not start
            report_failure(writer, Stage.EXEC, error)
        else:
            if self.command == 0:
                become(self.launch, berth, writer)
        for fd in (writer, *self._lent):
            os.close(fd)

    @property
    def _lent(self) -> frozenset[int]:
        """The descriptors that are open only for the command."""
        return self.launch.fds.union(self.outputs)

    @property
    def _groups(self) -> tuple[ControlGroup, ...]:
        return (*([] if self.group is None else [self.group]), *self.limited.extra)

    @property
    def _memory(self) -> ControlGroup | None:
        """The group that counts the command's memory."""
        return self.limited.by_controller.get(MEMORY, self.group)

    def _take_request(self) -> None:
        try:
            is_asked = os.read(self.control, 1) != b""
        except BlockingIOError:
            return
        except OSError:
            is_asked = False
        if is_asked:
            self.signals.cancel_asked = True
            return
        # the job process has ended, which is no request
        os.close(self.control)
        self.control = -1

    def _take_report(self) -> bool:
        """Whether the program was executed; if not, that is reported, and the supervisor is done."""
        content = os.read(self.report, _REPORT_BYTES)
        os.close(self.report)
        self.report = -1
        failure = read_report(content)
        if failure is None:
            self._tell([{"started": self.command}])
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.command, 0)
        self._remove_group()
        self._tell([{"not_started": content.decode()}])
        return False

    def _go_on(self) -> bool:
        """Do the next step; return whether all is over."""
        self._reap()
        seen = Seen(self.signals.cancel_asked, self.wait_status is not None, self._is_anything_left())
        self.course, step = advance(self.course, time.monotonic(), seen)
        if self.wait_status is not None and self.report < 0:
            self._tell_end(is_over=step is StopStep.OVER)
        match step:
            case StopStep.TERM:
                self._send(signal.SIGTERM)
                # a stopped process could not react to SIGTERM
                self._send(signal.SIGCONT)
            case StopStep.KILL:
                self._kill()
            case StopStep.WAIT:
                # an ended process may have left its children to us
                if self.course.phase is StopPhase.KILLED:
                    self._kill_children()
            case StopStep.OVER:
                pass
            case _:
                assert_never(step)
        return step is StopStep.OVER and self.report < 0

    def _reap(self) -> None:
        """Take the exit status of every child that has ended, adopted ones included."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.command:
                    self.wait_status = status
        except ChildProcessError:
            self.has_children = False

    def _is_anything_left(self) -> bool:
        if self.has_children or self.group is None:
            return self.has_children
        try:
            return not self.group.is_empty()
        except FileNotFoundError:
            return False
        except OSError:
            # an error is not a verdict
            return True

    def _send(self, number: signal.Signals) -> None:
        send_all(descendants(os.getpid()), number)

    def _kill(self) -> None:
        if self.group is not None:
            try:
                self.group.kill()
            except OSError as error:
                _log.warning("group.not_killed", job=self.terms.job_id, reason=error, next="kill its processes singly")
        self._kill_children()

    def _kill_children(self) -> None:
        """Kill our children as fast as they appear.

        If processes make a successor and end, a scan of the whole machine only ever sees the last but one. But
        each of them becomes our child when its parent ends, as do the children of a process that we kill.
        """
        seen: frozenset[int] = frozenset()
        until = time.monotonic() + _ROUND_S
        while time.monotonic() < until:
            children = own_children()
            if children <= seen:
                return
            seen = children
            for pid in children:
                # another user's, such as sudo, is waited for
                with contextlib.suppress(PermissionError):
                    # not reaped, so the pid still belongs to it
                    os.kill(pid, signal.SIGKILL)
            self._reap()

    def _tell_end(self, *, is_over: bool) -> None:
        """Report once how the command ended, and that all is over; both in one write if no process was left."""
        facts: list[SupervisorLine] = []
        if not self.is_told and self.wait_status is not None:
            self.is_told = True
            duration_s = time.monotonic() - self.began
            fact: SupervisorLine = {
                "ended": self.wait_status,
                "timed_out": self.course.timed_out,
                "duration_s": duration_s,
            }
            facts.append({**fact, **self._used()})
        if is_over:
            used = self._used()
            self._remove_group()
            os.close(self.livelock_fd)
            facts.append({"over": True, **used})
        if facts:
            self._tell(facts)

    def _used(self) -> SupervisorLine:
        """The usage so far; call it while the groups still exist."""
        return {"usage": usage_so_far(self._memory), "oom_kills": killed_for_memory(self._memory)}

    def _remove_group(self) -> None:
        for group in self._groups:
            group.remove()
        if self.terms.groups is not None:
            self.terms.groups.remove_if_empty()
        for group in self.limited.extra:
            # another command's group may be there
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(group.folder))

    def _tell(self, facts: Sequence[SupervisorLine]) -> None:
        # the pipe has no reader if the job process was killed
        with contextlib.suppress(OSError):
            os.write(self.status, write_facts(facts))
