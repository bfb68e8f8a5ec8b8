"""The life of a supervisor: a process between the job process and the command that outlives both until all is over.

Theory. It is a fork of the job process that executes nothing, so it costs a fork and little memory. It starts
the command; as "subreaper" it inherits each orphan among the command's descendants, in whatever session they are, so
none can hide; and it ends last: it never is in the control group that it ends, nor in the command's process group.
Who has no children left as a subreaper has no descendants: that is the proof that all is over.

It holds the flock of the job's livelock, so the job's locks stay held until it lets go, even when the job process
is killed. The command itself inherits no descriptor of ours. When the supervisor is killed, the kernel kills the
command; what the command had started falls to the job process, which ends it.

SIGTERM asks it to stop the command; the time-out is its own business, too, so neither needs a job process that
lives. What happens it tells through a pipe, a JSON object a line: `started`, or `not_started`; `ended` with how the
command itself did; `over`, with which it lets go of the livelock. At the pipe's end it is gone.

Source: DESIGN sections 5 and 16; everyday.md a.
"""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn, assert_never

import attrs
import setproctitle

from common.system.livelock import Livelock
from common.system.log import get_log, log_fds
from common.system.processes import descendants, own_children, send_all
from daemons.jobproc.commands.cgroups import Group, GroupTree
from daemons.jobproc.commands.execution import (
    Berth,
    Launch,
    Stage,
    become,
    become_subreaper,
    close_all_but,
    read_report,
    report_failure,
)
from daemons.jobproc.commands.facts import Fact, write_facts
from daemons.jobproc.commands.limits import MEMORY, Limited, Wanted
from daemons.jobproc.commands.stopping import Course, Leave, Phase, Seen, Step, advance, begin
from daemons.jobproc.commands.usage import killed_for_memory, usage_so_far
from daemons.jobproc.signals import HANDLED, ProcessSignals

_STDERR: Final = 2
# of killing what comes, before others are looked after
_ROUND_S: Final = 0.2
_REPORT_BYTES: Final = 64 * 2**10
_log = get_log(__name__)


@attrs.frozen
class Terms:
    """What a supervisor is told."""

    job_id: int
    livelock: Livelock
    leave: Leave
    # None: no time-out
    timeout_s: float | None
    # from SIGTERM to SIGKILL
    grace_s: float
    # where the command's group is made, and its name; None: no control groups here
    groups: GroupTree | None
    group_name: str
    # of the installation, by which its groups are told from others'
    run_folder: Path
    wanted: Wanted = attrs.field(factory=Wanted)


def supervise_and_exit(supervision: "Supervision") -> NoReturn:
    """Be the supervisor, in a forked child of the job process, to its end."""
    code = 1
    try:
        supervision.run()
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            _log.exception("supervisor.crashed", job=supervision.terms.job_id)
    finally:
        os._exit(code)


@attrs.define
class Supervision:
    """The life of the supervisor, in the forked child."""

    launch: Launch
    terms: Terms
    signals: ProcessSignals
    outputs: Sequence[int]
    status: int
    livelock_fd: int
    job_process: int
    group: Group | None
    limited: Limited
    command: int = 0
    began: float = 0.0
    wait_status: int | None = None
    # of the pipe by which the command's start is reported; -1: it has been
    report: int = -1
    is_told: bool = False
    # once it has none it has no descendants, and never will
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
            ready = self.signals.wait(left_s, *((self.report,) if self.report >= 0 else ()))
            if ready and not self._take_report():
                return

    def _leave_job(self) -> None:
        self.signals.begin_anew()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        os.setpgid(0, 0)
        become_subreaper()
        own = {*range(_STDERR + 1), *self.signals.fds, *log_fds()}
        close_all_but(frozenset({*own, *self._lent, self.status, self.livelock_fd}))
        setproctitle.setproctitle(f"gantry-job {self.terms.job_id} supervisor")

    def _start(self) -> None:
        self.report, writer = os.pipe2(os.O_CLOEXEC)
        berth = Berth(self.outputs, self.job_process, os.getpid(), self._groups)
        self.began = time.monotonic()
        try:
            self.command = os.fork()
        except OSError as error:
            # told like any other program that does not start
            report_failure(writer, Stage.EXEC, error)
        else:
            if self.command == 0:
                become(self.launch, berth, writer)
        for fd in (writer, *self._lent):
            os.close(fd)

    @property
    def _lent(self) -> frozenset[int]:
        """What is open for the command alone."""
        return self.launch.fds.union(self.outputs)

    @property
    def _groups(self) -> tuple[Group, ...]:
        return (*([] if self.group is None else [self.group]), *self.limited.extra)

    @property
    def _memory(self) -> Group | None:
        """The group that counts the command's memory."""
        return self.limited.by_controller.get(MEMORY, self.group)

    def _take_report(self) -> bool:
        """Whether the program was executed; if not, that is told, and we are done."""
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
        """Do what is to be done now; whether all is over."""
        self._reap()
        seen = Seen(self.signals.cancel_asked, self.wait_status is not None, self._is_anything_left())
        self.course, step = advance(self.course, time.monotonic(), seen)
        if self.wait_status is not None and self.report < 0:
            self._tell_end(is_over=step is Step.OVER)
        match step:
            case Step.TERM:
                self._send(signal.SIGTERM)
                # who is stopped could not heed it
                self._send(signal.SIGCONT)
            case Step.KILL:
                self._kill()
            case Step.WAIT:
                # a process that has ended may have left others to us
                if self.course.phase is Phase.KILLED:
                    self._kill_children()
            case Step.OVER:
                pass
            case _:
                assert_never(step)
        return step is Step.OVER and self.report < 0

    def _reap(self) -> None:
        """Take the exit status of every child that has ended, the adopted ones too."""
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
            # no verdict
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
        """KILL for what falls to us, as fast as it comes.

        Of processes that make a successor and end the scan of the whole machine only ever sees the last but one. But
        each of them becomes our child with its parent's end, as does what is left by one that we kill.
        """
        seen: frozenset[int] = frozenset()
        until = time.monotonic() + _ROUND_S
        while time.monotonic() < until:
            children = own_children()
            if children <= seen:
                return
            seen = children
            for pid in children:
                # not reaped, so the number is its own
                os.kill(pid, signal.SIGKILL)
            self._reap()

    def _tell_end(self, *, is_over: bool) -> None:
        """Tell once how the command ended, and that all is over; both in one write if nothing was left."""
        facts: list[Fact] = []
        if not self.is_told and self.wait_status is not None:
            self.is_told = True
            duration_s = time.monotonic() - self.began
            fact: Fact = {"ended": self.wait_status, "timed_out": self.course.timed_out, "duration_s": duration_s}
            facts.append({**fact, **self._used()})
        if is_over:
            used = self._used()
            self._remove_group()
            os.close(self.livelock_fd)
            facts.append({"over": True, **used})
        if facts:
            self._tell(facts)

    def _used(self) -> Fact:
        """What it used so far; the groups are still there."""
        return {"usage": usage_so_far(self._memory), "oom_kills": killed_for_memory(self._memory)}

    def _remove_group(self) -> None:
        for group in self._groups:
            group.remove()
        if self.terms.groups is not None:
            self.terms.groups.remove_if_empty()
        for group in self.limited.extra:
            # another command's may be there
            with contextlib.suppress(OSError):
                os.rmdir(os.path.dirname(group.folder))

    def _tell(self, facts: Sequence[Fact]) -> None:
        # nobody listens when the job process was killed
        with contextlib.suppress(OSError):
            os.write(self.status, write_facts(facts))
