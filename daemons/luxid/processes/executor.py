"""Start an external executor for each job, such as Ganeti's: the alternative to the fork server's client.

Theory. The program gets the job's id as its last argument and talks over its standard input and
output. It runs in a session of its own, so that the end of luxid does not end the job. luxid is its
parent and reaps it; after luxid's end its adopter does.

The known pid need not be the job's: the program may be a wrapper. A signal to a job waits until its
process has written its own pid into the job file, which it does when it is ready for signals.

Source: luxid.md 5.9, 9.1; DESIGN section 7.
"""

import contextlib
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Final

import trio

from common.errors import Unavailable
from common.ids import JobId
from common.paths import Paths
from common.system.daemons.descriptors import take_back_limit
from common.system.livelock import Livelock
from common.system.log import get_log
from common.system.passing import is_passing
from daemons.luxid.processes.handshake import StartFailed
from daemons.luxid.processes.launcher import LauncherEvents, Started, StartRules
from protocol.forkserver import JobExited

# seconds between the signals to a process that does not react
_PATIENCE_S: Final = 0.1
_ENDINGS: Final = (signal.SIGTERM, signal.SIGABRT, signal.SIGKILL)
# variable that the executor reads as a number
_DEBUG: Final = "GNT_DEBUG"
# a program that is being written
_BUSY: Final = errno.ETXTBSY
_log: Final = get_log(__name__)


class ExternalExecutor:
    """The launcher that runs a program for each job.

    Args:
        argv: program and arguments.
    """

    def __init__(self, argv: Sequence[str], paths: Paths) -> None:
        self._argv = tuple(argv)
        self._livelocks = paths.livelocks
        self._rules = StartRules(attempts=1, asks_secrets=True)
        # nursery for reaping, and the receiver of events; None: not ready
        self._reaping: tuple[trio.Nursery, LauncherEvents] | None = None
        self._processes: dict[int, trio.Process] = {}

    @property
    def rules(self) -> StartRules:
        return self._rules

    async def run(
        self, events: LauncherEvents, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold luxid's own livelock, which stands in a job file until the process has one, and reap processes.

        Cancellation: the processes live on.
        """
        livelock = Livelock.create(self._livelocks, "luxi-daemon")
        self._rules = StartRules(attempts=1, own_livelock=livelock.path, asks_secrets=True)
        try:
            async with trio.open_nursery() as nursery:
                self._reaping = (nursery, events)
                events.connected()
                task_status.started()
                await trio.sleep_forever()
        finally:
            livelock.remove()

    async def start(self, job_id: JobId) -> Started:
        """Run the program for this job.

        Raises:
            StartFailed: it cannot be run.
            Unavailable: no program can be run at the moment, for lack of processes, memory or descriptors.
        Cancellation: if a process was made nevertheless, it finds its standard input closed, and ends.
        """
        if self._reaping is None:
            raise Unavailable("the executor is not ready")
        try:
            process = await trio.lowlevel.open_process(
                [*self._argv, str(job_id)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, _DEBUG: str(int(logging.getLogger().isEnabledFor(logging.DEBUG)))},
                start_new_session=True,
            )
        except OSError as error:
            kind = Unavailable if is_passing(error) or error.errno == _BUSY else StartFailed
            raise kind(f"'{self._argv[0]}' cannot be run: {(error.strerror or str(error)).lower()}") from error
        # before the go-ahead it does not use descriptors
        take_back_limit(process.pid)
        assert process.stdin is not None
        assert process.stdout is not None
        self._processes[process.pid] = process
        nursery, events = self._reaping
        nursery.start_soon(self._reap, job_id, process, events)
        return Started(process.pid, trio.StapledStream(process.stdin, process.stdout))

    async def abandon(self, started: Started) -> None:
        """End a process whose start failed, and all that it runs."""
        process = self._processes.get(started.pid)
        with trio.CancelScope(shield=True):
            for number in _ENDINGS:
                if process is None or process.poll() is not None:
                    return
                # not reaped, so the pid still belongs to it
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with trio.move_on_after(_PATIENCE_S):
                    await process.wait()

    async def _reap(self, job_id: JobId, process: trio.Process, events: LauncherEvents) -> None:
        code = await process.wait()
        del self._processes[process.pid]
        _log.debug("job.process_ended", job=job_id, pid=process.pid, exit_code=code)
        events.exited(JobExited(job_id, process.pid, code))
