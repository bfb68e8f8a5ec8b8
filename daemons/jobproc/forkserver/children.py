"""The job processes of a fork server: created by fork, recorded until they end.

The state survives an exec of the fork server, which keeps its pid and so its children.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping

import attrs

from common.errors import Conflict, Unavailable
from common.ids import JobId
from common.system.log import get_log
from common.system.signals import HANDLED
from daemons.jobproc.handshake import refuse

_log = get_log(__name__)


@attrs.frozen
class Exit:
    """The end of a child."""

    # None: it was not a job process
    job_id: JobId | None
    pid: int
    # status as from waitpid
    wait_status: int


class Children:
    """The job processes, by pid.

    Args:
        jobs: pid -> job id of processes that an earlier program in this process has started.
    """

    def __init__(self, jobs: Mapping[int, JobId]) -> None:
        self._jobs = dict(jobs)

    @property
    def jobs(self) -> Mapping[int, JobId]:
        """pid -> job id, as a copy."""
        return dict(self._jobs)

    def start(self, job_id: JobId, sock: socket.socket, live: Callable[[JobId, socket.socket], int]) -> int:
        """Fork a process that calls `live(job_id, sock)` and exits with the returned code.

        `live` begins with the signals in `HANDLED` blocked.

        Returns: the pid.
        Raises:
            Conflict: the job already has a process.
            Unavailable: the kernel refuses another process.
        """
        for pid, other in self._jobs.items():
            if other == job_id:
                raise Conflict(f"job {job_id} has a process already, with pid {pid}", pid=pid)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            pid = os.fork()
            if pid == 0:
                _live_and_exit(job_id, sock, live)
        except OSError as error:
            raise Unavailable(f"no process for job {job_id}: {_reason(error)}; try again later") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._jobs[pid] = job_id
        return pid

    def reap(self) -> Iterator[Exit]:
        """Yield the children that have ended, and forget them."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                yield Exit(self._jobs.pop(pid, None), pid, status)


def _live_and_exit(job_id: JobId, sock: socket.socket, live: Callable[[JobId, socket.socket], int]) -> None:
    """Run the child. Never returns, so that no code of the parent runs in the child."""
    code = 1
    try:
        code = live(job_id, sock)
    except (OSError, MemoryError) as error:
        # nothing has happened to the job (`life.run`): luxid starts it again, and is told that this was no try of it
        with contextlib.suppress(BaseException):
            refuse(sock, _reason(error))
            _log.warning("job.not_started", job=job_id, reason=error)
    except BaseException:
        with contextlib.suppress(BaseException):
            _log.exception("job.crashed", job=job_id)
    finally:
        os._exit(code)


def _reason(error: OSError | MemoryError) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else "out of memory"
