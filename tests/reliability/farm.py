"""Real daemons of an installation, each forked from this process: in a tenth of the time that an interpreter takes.

The runner is their supervisor: who has ended is started again when it is asked to `revive`. All that they start and
leave behind comes to the runner, which so can end it at the end of a run.
"""

import contextlib
import ctypes
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from common.daemons import daemon_named, start_order
from common.paths import Paths

ALL: Final = tuple(daemon.name for daemon in start_order())
START_S: Final = 60.0
_PR_SET_CHILD_SUBREAPER: Final = 36
# the backstops are seconds away, and kills are quick
SETTINGS: Final = r"""
[luxid]
kill_grace_s = 0.3
sweep_s = 2
[wconfd]
sweep_s = 1
livelock_grace_s = 1
# by hand: all archived jobs but the last one are due
[retention]
keep_jobs = 1
keep_per_name = 0
[notify.rules.tally]
on = ["end"]
labels = ["told"]
program = ["/bin/sh", "-c", '''echo told $(sed 's/.*"job":\([0-9]*\).*/\1/') >> $GANTRY_DATA_DIR/../tally''']
retry_s = [0.1, 0.1, 0.1, 0.1, 0.1]
"""


class CannotStart(Exception):
    """a daemon ended before it was ready, again and again"""


def be_a_runner() -> None:
    """Load what the daemons need, once for all of them; SIGTERM ends the runner as Ctrl-C does, with all it started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for daemon in start_order():
        importlib.import_module(daemon.module)
    importlib.import_module("daemons.jobproc.forkserver.warmup").warm_up()
    # it saves the jobs a millisecond each, and costs each run a fifth of a second, twice
    forkserver: Any = importlib.import_module("daemons.jobproc.forkserver.main")
    forkserver.rehearse = lambda settings: None
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Farm:
    """The daemons of one installation.

    Args:
        in_child: called in a new daemon with its name, before it does anything.
        killing: entered while this farm kills.
    """

    def __init__(
        self,
        root: Path,
        in_child: Callable[[str], None],
        killing: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self.root = root
        self.paths = Paths.under_root(root)
        self.pids: dict[str, int] = {}
        # how often a daemon was found ended
        self.ends: dict[str, int] = {}
        self._in_child = in_child
        self._killing = killing

    def start(self, *names: str) -> None:
        """Start daemons (all, if none is named), and wait until each is ready; one that ends is started again.

        Raises: CannotStart.
        """
        for name in names or ALL:
            for _ in range(4):
                if self._start_one(name):
                    break
                self.ends[name] = self.ends.get(name, 0) + 1
            else:
                raise CannotStart(f"{name} does not start: {self.complaints(name)}")

    def revive(self) -> None:
        """Start the daemons again that have ended. Raises: CannotStart."""
        self._reap()
        for name in ALL:
            if name not in self.pids:
                self.ends[name] = self.ends.get(name, 0) + 1
                self.start(name)

    def kill(self, *names: str, number: int = signal.SIGKILL) -> None:
        """End daemons by a signal, and wait until they are gone."""
        for name in names or ALL:
            pid = self.pids.pop(name, 0)
            if pid:
                with self._killing(), contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def kill_everything(self) -> None:
        """SIGKILL of the daemons and of all that came from them, until nothing is left."""
        self.kill()
        deadline = time.monotonic() + START_S
        while children := _children():
            for pid in children:
                with self._killing(), contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if time.monotonic() > deadline:
                raise AssertionError(f"processes do not end: {children}")
            time.sleep(0.002)

    def complaints(self, name: str) -> str:
        """The last that a daemon said."""
        errors = self._errors(name)
        text = errors.read_text() if errors.exists() else ""
        log = self.paths.log_file(name)
        return (text + (log.read_text()[-1500:] if log.exists() else ""))[-2000:]

    def _start_one(self, name: str) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            address = self.root / f"ready-{name}"
            address.unlink(missing_ok=True)
            ready.bind(str(address))
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                ready.close()
                self._be(name, address)
            return self._wait_until_ready(name, pid, ready)

    def _wait_until_ready(self, name: str, pid: int, ready: socket.socket) -> bool:
        deadline = time.monotonic() + START_S
        with contextlib.closing(select.epoll()) as poller:
            gone = os.pidfd_open(pid)
            poller.register(gone, select.EPOLLIN)
            poller.register(ready.fileno(), select.EPOLLIN)
            try:
                while time.monotonic() < deadline:
                    for fd, _ in poller.poll(1):
                        if fd == gone:
                            os.waitpid(pid, 0)
                            return False
                        if b"READY=1" in ready.recv(4096):
                            self.pids[name] = pid
                            return True
            finally:
                os.close(gone)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise CannotStart(f"{name} was not ready after {START_S:g} s: {self.complaints(name)}")

    def _be(self, name: str, address: Path) -> None:
        code = 70
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ["NOTIFY_SOCKET"] = str(address)
            sys.argv = [f"gantry-{name}", "--root", str(self.root)]
            fd = os.open(self._errors(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            self._in_child(name)
            importlib.import_module(daemon_named(name).module).main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _errors(self, name: str) -> Path:
        return self.root / f"stderr-{name}"

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for name in [name for name, known in self.pids.items() if known == pid]:
                    del self.pids[name]


def _children() -> Iterable[int]:
    """What this process has started, or adopted, that has not been reaped."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in text.split()]
