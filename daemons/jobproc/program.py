"""A program that a unit runs: started, its output pumped, stopped when its time is over, and reaped.

Theory. One loop waits for everything: output, signals (the end of a child among them), the time-out.
The program's standard output and error are one pipe, so that their order is kept, unless they are wanted apart.

The program has ended when its own process has. What it left in the background may hold the pipe open
for ever, so the end of the stream is not waited for: what is in the pipe at that moment is read, the
rest is not ours; who writes later gets SIGPIPE. Whether something of it still runs is told by the
*leash*, a pipe whose writing end the program inherits and never uses: at its end nobody holds it any
more. The livelock's descriptor travels the same way, so a daemon that closes what it has inherited is
free of both (DESIGN section 5).
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from common.livelock import handed_on
from daemons.jobproc.descendants import become_subreaper, descendants, send
from daemons.jobproc.prelude import Prelude
from daemons.jobproc.signals import ProcessSignals

Sink = Callable[[bytes], None]

# as large as the kernel gives to everybody (/proc/sys/fs/pipe-max-size)
_PIPE_BYTES: Final = 2**20
# how long a second look for killed processes may take, should no signal tell of their end
_LOOK_AGAIN_S: Final = 1.0


@attrs.frozen
class Account:
    """Whom a program runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]


@attrs.frozen
class Launch:
    """A program to start."""

    argv: Sequence[str]
    env: Mapping[str, str]
    # None: where the job process is; the prelude changes it
    cwd: str | None
    # descriptors that it inherits
    pass_fds: tuple[int, ...] = ()
    # None: as the job process
    account: Account | None = None
    umask: int = 0o022
    # descriptor to read; None: it is empty
    stdin: int | None = None
    # done in its process before it begins
    prelude: Prelude | None = None


@attrs.frozen
class ProgramEnd:
    """How a program ended."""

    # as `subprocess` has it: negative for a signal
    returncode: int
    timed_out: bool
    duration_s: float
    # at its end when nothing of the program runs any more; the receiver closes it
    leash: int

    @property
    def exit_code(self) -> int | None:
        return self.returncode if self.returncode >= 0 else None

    @property
    def signal_name(self) -> str | None:
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"SIG{-self.returncode}"


class RunningProgram:
    """A program from its start to its end.

    Args:
        sink: gets the output in pieces, as they come.
        error_sink: the same of standard error, if that is apart.
    Raises:
        OSError: it could not be started. subprocess.SubprocessError: its prelude failed.
    """

    def __init__(self, launch: Launch, sink: Sink, signals: ProcessSignals, error_sink: Sink | None = None) -> None:
        become_subreaper()
        self._signals = signals
        # left behind by earlier programs of this job: not to be stopped with this one
        self._strangers = descendants(os.getpid()) if _has_children() else frozenset()
        self._began = time.monotonic()
        self._leash, holding_end = os.pipe2(os.O_CLOEXEC)
        # reading ends of pipes, with what is to be done with that which comes out
        self._outputs: dict[int, Sink] = {}
        writing_ends = [self._open(each) for each in (sink, error_sink) if each is not None]
        try:
            self._process = _start(launch, writing_ends, holding_end)
        except BaseException:
            os.close(self._leash)
            self.close()
            raise
        finally:
            for fd in (holding_end, *writing_ends):
                os.close(fd)
        self._stop_at: float | None = None
        self._signal_to_send = signal.SIGTERM
        self._timed_out = False

    def run(self, timeout_s: float | None, grace_s: float) -> ProgramEnd:
        """Pump the output until the program ends.

        Args:
            timeout_s: then TERM to the program and everything it started, and KILL `grace_s` later.
                After a time-out none of them is left when this returns.
        """
        self._stop_at = None if timeout_s is None else self._began + timeout_s
        while not self._is_over():
            if self._stop_at is not None and time.monotonic() >= self._stop_at:
                self._stop(grace_s)
            left_s = None if self._stop_at is None else self._stop_at - time.monotonic()
            self._pump(self._signals.wait(left_s, *self._outputs))
        # a pipeful: what was there when it ended, and no more, should others go on to write
        self._pump(self._outputs)
        self.close()
        duration_s = time.monotonic() - self._began
        return ProgramEnd(self._process.returncode, self._timed_out, duration_s, self._leash)

    def close(self) -> None:
        """Stop reading the output."""
        for fd in self._outputs:
            os.close(fd)
        self._outputs.clear()

    def _open(self, sink: Sink) -> int:
        """A pipe for output; its writing end."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._outputs[reader] = sink
        with contextlib.suppress(OSError):
            # fewer, larger reads; refused to users that have used up their share of pipe memory
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # programs do not expect otherwise; our end has a flag of its own
        os.set_blocking(writer, True)
        return writer

    def _is_over(self) -> bool:
        self._reap()
        if self._process.returncode is None:
            return False
        return not (self._timed_out and self._family())

    def _family(self) -> frozenset[int]:
        return descendants(os.getpid()) - self._strangers

    def _stop(self, grace_s: float) -> None:
        self._timed_out = True
        send(self._family(), self._signal_to_send)
        is_last = self._signal_to_send is signal.SIGKILL
        self._stop_at = time.monotonic() + (_LOOK_AGAIN_S if is_last else grace_s)
        self._signal_to_send = signal.SIGKILL

    def _reap(self) -> None:
        """Take the exit status of every child that ended, the adopted ones too."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._process.pid:
                    self._process.returncode = os.waitstatus_to_exitcode(status)

    def _pump(self, fds: Iterable[int]) -> None:
        """Read what is there, at most about a pipeful of each."""
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


def _start(launch: Launch, outputs: Sequence[int], leash: int) -> "subprocess.Popen[bytes]":
    account = launch.account
    prelude: Callable[[], None] | None = launch.prelude.run if launch.prelude is not None else None
    with handed_on():
        return subprocess.Popen(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            stdin=subprocess.DEVNULL if launch.stdin is None else launch.stdin,
            stdout=outputs[0],
            stderr=outputs[-1],
            pass_fds=(*launch.pass_fds, leash),
            umask=launch.umask,
            preexec_fn=prelude,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=account.groups if account else None,
        )


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
